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
// # What it does not do
//
// It has no clock, no IO, no goroutine and no lock. It knows neither messages
// nor their ids: that a place is given back only once, and only by the message
// that took it, is the caller's to ensure where only a count is kept (see
// Table.GiveBack). Limits that are not per recipient are refused by Compile
// until they are built.
package limit
