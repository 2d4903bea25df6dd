// Package revise brings an edit of the policy into force: it is the one way,
// whether the edit came as a file, over HTTP or from a command about keys.
//
// An edit is a function of the revision in force. What it makes is judged as a
// whole; the topics that it needs are made; then it is written as the successor
// of the revision that it was made from. If another edit came first it is made
// anew from that one, so neither is lost, and a condition that the edit sets on
// what it finds is judged on what is really in force.
//
// It does not parse files or bodies, and it does not ask whether this version
// acts on all that a policy says: who reads the text does, since only they know
// where in it a mistake stands. It decides nothing about who may edit.
package revise
