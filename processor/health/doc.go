// Package health reads weir.health: what lanes say of their providers, for
// admission's routing and for weir status.
//
// It keeps the latest record of each lane and gives out an immutable snapshot.
// What follows from the records is package route's to say (route.Step); this
// package is the goroutine that steps it and the reading around it.
//
// Health is advice. A topic that is missing or cannot be read, and a record that
// is torn, are logged; meanwhile what was known last counts, and who is not known
// is well. Nothing of it stops a stage.
//
// It writes nothing and measures nothing: lanes do (processor/lane).
package health
