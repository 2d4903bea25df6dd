// Package recipient gives every recipient one key: what is hashed to find its
// partition, what limits count, and what is logged as `to`. However a producer
// writes a recipient, the key is the same, or the limits would not be exact.
//
// It does not know whether a recipient exists or can be reached, it looks up
// nothing on the network, and the meaning of a key rests on the phone library's
// metadata: [MetadataVersion] stands in each partition's meta record, because
// other metadata may give another key.
//
// # Letter case in mail addresses
//
// Ann@Example.com and ann@example.com have one key, ann@example.com: a limit or an
// opt-out that another spelling evades is none. Mail goes to the address as the
// request spelled it ([Recipient.Address]). Versions before 2026-11 kept the local
// part in the key; package admission says what becomes of their keys.
//
// Push tokens are compared byte by byte: APNs and FCM tokens distinguish letter
// case. So do a webhook's path and query; its scheme and host do not.
//
// # Possible, not valid
//
// A phone number is refused when it is impossible: its country code is unknown,
// its country's plan has no numbers of its length, or it is in no assigned range
// and has not the length of a mobile number of its country either.
// It is not refused merely for being in no range that the library knows as
// assigned (what the library calls invalid): countries open new mobile ranges
// before a release of the library lists them, and a real recipient refused is
// worse than a provider's error. What this still refuses wrongly is a new range
// of fixed lines of a length that the country's mobiles do not have.
//
// For a number in an unassigned range the country is right wherever a calling
// code has one country; for shared codes (+1, +7, +44 ...) it is the main one.
package recipient
