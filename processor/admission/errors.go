package admission

import "errors"

// Errors that end admission before it decides anything on a partition whose
// state it cannot know. Each says what to do; docs/errors.md says more.
var (
	// ErrPartitionsChanged: N is part of the state.
	ErrPartitionsChanged = errors.New("the partition count N is part of the state and has changed: set kafka.partitions to what the state was written with")
	// ErrLedgerRecord: a key of the ledger's own has a value that is not, so
	// what stood there before may be gone.
	ErrLedgerRecord = errors.New("a record of the ledger is torn or foreign where state stood, so what it replaced must be restored before anything is decided: stop admission and run weir ledger check, which says what weir ledger repair would do")
	// ErrLedgerDiffers: records were removed, replaced or put back.
	ErrLedgerDiffers = errors.New("the state is not what the last transaction left: records of it were removed, replaced or put back, so limits would let too many through or a message be sent twice; stop admission and run weir ledger check, which says what weir ledger repair would do")
	// ErrLedgerLost: decisions were made here, and their state is gone or ends before them.
	ErrLedgerLost = errors.New("the ledger lacks decisions that were made: the topic was deleted or cut off, it is an older copy, or this is another prefix; correct kafka.prefix, put the topic back from a copy, or stop admission and run weir ledger check, which says whether weir.status has what is missing")
	// ErrPositions: the group's offsets are not those of the last transaction.
	ErrPositions = errors.New("the group's offset is not the one that was committed with the state: somebody reset the group, or the ledger is an older copy; stop admission and run weir ledger check")
	// ErrDeleted: requests were deleted before they were decided.
	ErrDeleted = errors.New("records were deleted before they were decided (retention while admission was down, or by hand): keep requests longer than the longest outage; to go on without them, stop admission and run weir ledger repair --skip-deleted")
	// ErrBeyondEnd: the input ends before what the state has read of it.
	ErrBeyondEnd = errors.New("the log ends before what was already read of it: brokers lost acknowledged records, or the topic is an older copy; to go on from its end, stop admission and run weir ledger repair --skip-deleted")
	// ErrTopicRecreated: the offsets in the state are another topic's.
	ErrTopicRecreated = errors.New("the topic was deleted and made anew, so the offsets in the state are not its own: put the old topic back, or, to read the new one from its start with the limits as they stand, stop admission and run weir ledger repair --skip-deleted")
	// ErrUnusablePolicy: a revision that apply would have refused.
	ErrUnusablePolicy = errors.New("a revision of the policy cannot be decided on, so the one in force before it stays: bring a valid policy into force with weir apply")

	errForeignKey = errors.New("no key of the ledger's")
)
