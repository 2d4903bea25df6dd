// Package legacy says in the terms of an older system's API what Weir has, and
// takes what that API asks for into Weir's own: its rate limits are limits of the
// policy that carry a legacy_id, its manufacturers are providers that do, its
// tasks are messages, and its five states stand for all of Weir's.
//
// It is pure: policies, bodies and events in, policies, requests and answers
// out. It serves no HTTP, publishes no revision and does not check the rest of a
// policy or a request; whoever calls it does.
package legacy
