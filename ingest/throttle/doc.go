// Package throttle keeps the API's own limits: how often one caller may ask.
// Deciding is arithmetic on a caller's state and the time that it is given; it
// reads no clock, waits for nothing and knows no HTTP. ClientAddr, in a file of
// its own, tells from a request's header whose address counts.
//
// A caller is an API key, or an address where there is none. Keys are those of
// the policy, and nobody else can drive one out. Addresses anyone can make up,
// so their table is bounded; what it forgets is a caller who may begin anew.
//
// It has nothing to do with the limits of recipients, which are exact over the
// whole cluster: what is counted here is counted by one process, in memory, and
// gone with it.
package throttle
