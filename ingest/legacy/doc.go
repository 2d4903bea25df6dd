// Package legacy says in the terms of an older system's API what Weir has, and
// takes what that API asks for into Weir's own: its rate limits are limits of the
// policy that carry a legacy_id, and its manufacturers are providers that do.
//
// It is pure: policies and bodies in, policies and answers out. It serves no
// HTTP, publishes no revision and does not check the rest of a policy; whoever
// calls it does.
package legacy
