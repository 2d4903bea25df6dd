// Package request is what a record of a producer says, whoever reads it: its
// request in any encoding, the producer's own time, and whom it is for. With
// it comes what becomes of one that nobody can act on: its end as a status, and
// its bytes in weir.dlq. The stages that read producers' records share it, so
// that a record means the same in whichever topic it stands.
//
// It decides nothing and writes nothing.
package request
