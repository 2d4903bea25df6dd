// Package limit is the pure heart of admission: given the policy's rules, the
// places that stand, and the time, it says whether a message may pass, what it
// takes, when it may try again, and which windows refused it.
//
// # What holds
//
// "n in w" passes if and only if fewer than n places stand in
// (max(t-w, since), t]: a place taken at p counts until p+w-1 ms and is out at
// p+w. Several places of the same millisecond count each. A calendar window
// counts the places from its period's start, and as well only those after since.
// A bucket holds at most n tokens and gains its refill with every millisecond;
// a message passes if and only if its cost is there. It starts full, and never
// gets anything back.
// All matching limits answer at once, all or nothing; a refusal takes nothing.
// A limit that only observes answers alike and refuses nobody: what it would
// have refused passes without a place in it.
// Places leave by age, by a give-back that names them, or not at all: never
// because there are many.
//
// A Table holds the places of one partition: a slot of 64 bytes for each limit
// and scope as long as few places stand there, no pointers, one ledger record
// each, and a byte by which the slot is found. With what is free for growing that
// is about 100 bytes. Changes belong to an open transaction and are undone by
// Rollback. The slots are in memory that is mapped beside Go's heap (on Linux,
// with huge pages), so a table is closed.
//
// # Many places in one scope
//
// What a scope has beyond 512 places is in segments of up to 512: a list beside
// the slot, which keeps the calendar counters and the bucket. A scope that all
// messages of a tenant share may have 100,000 places, and of those a
// transaction changes a few: what it copies to undo them and what it writes to
// the ledger is by segment, and so a kilobyte or two where the whole would be a
// few hundred.
//   - A place is added to the last segment, or where its time belongs; a full
//     one in the middle is split. One that is given back moves the rest of its
//     segment. Neighbours that are both small are joined, so that of n places no
//     more than some n/128 segments remain.
//   - By age only whole segments leave. So a scope has up to a segment's places
//     that no window sees; as everywhere, they are left out by their times.
//   - What a window counts is a binary search over the segments and within one,
//     and a sum of the segments' counts from the nearer end.
//   - Each segment has a number, never used again in a transaction, and a ledger
//     record under the scope's key and that number, replaced when it changes and a
//     tombstone when it ends. Nothing else tells which segments a scope has, and
//     their order is that of their times: whichever record is loaded, again or
//     out of order, replaces what its key stood for, and after the last one the
//     state is whole. The scope's own record says only that there are segments.
//   - Undo works alike: a changed segment is a copy, and what it was is kept by
//     scope and number until the end of the transaction.
//   - With 256 places or fewer they go back into the slot.
//
// A scope's places from before there were segments, in one record, are read as
// they are, and moved to segments by the next place that is taken there.
//
// # What it does not do
//
// It has no clock, no IO, no goroutine and no lock. It knows neither messages
// nor their ids: that a place is given back only once, and only by the message
// that took it, is the caller's to ensure where only a count is kept (see
// Table.GiveBack). Of limits that are not per recipient it has the places whose
// scopes its partition owns; who asks which owner is the caller's.
package limit
