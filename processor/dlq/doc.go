// Package dlq reads weir.dlq, the messages that Weir gave up on, and sends them
// again. It reads with a plain client up to the ends that stood when it was
// called, joins no group, and holds some megabytes whatever the topic holds: a
// chunk of one partition to redrive, and some thousand entries without their
// bytes of each to list.
//
// To send a message again is to ask admission, through weir.readmit, for a new
// one of the same bytes (schemas.ReadmitRedrive): with an id derived from the
// old one and from where its record stands, and without its idempotency key and
// its times. Admission decides it like any other, and recognises for a day that
// the same record is asked for again; so a redrive that broke off is simply
// asked for again, and what it had sent is not sent twice.
//
// It decides nothing: whether a redriven message goes out is admission's to say,
// and shows in weir.status under its new id. It deletes nothing: records leave
// the topic by age.
package dlq
