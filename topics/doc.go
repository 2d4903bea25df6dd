// Package topics is the catalogue of Weir's Kafka topics as data: their names,
// partition counts and settings, the comparison with a cluster, and the
// creation of what is missing.
//
// It never deletes a topic, a partition or a record, never lowers a retention,
// and nothing is created unless [Apply] is asked to. It reads and writes no
// records, and it does not migrate: a changed N is refused.
package topics
