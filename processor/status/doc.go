// Package status is the life of a message as its statuses tell it, and the
// receipts that amend it.
//
// It writes no status but those of receipts: the holder of a message writes the
// others. It finds no message by a provider's id.
package status
