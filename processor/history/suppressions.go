package history

import "github.com/weirhq/weir/schemas"

// Suppressions asks for suppressions of one tenant that stand at At: those of its
// own, and not what is suppressed for every tenant. A zero field asks for nothing.
type Suppressions struct {
	Tenant  string
	Channel string // those that name this channel
	Class   string
	Reason  string
	At      schemas.Millis
	After   Suppressed // behind this one, in the order of recipients
	Limit   int        // at least 1
}

// Suppressed is one suppression and whom it is about.
type Suppressed struct {
	To string
	schemas.Suppression
}
