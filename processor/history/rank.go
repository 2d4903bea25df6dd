package history

import "github.com/weirhq/weir/schemas"

// Errors asks what providers answered a tenant's messages, by provider and error
// code. A zero field asks for nothing.
type Errors struct {
	Tenant   string // or AllTenants
	Provider string
	Class    string
	From     schemas.Millis // then or later; needed
	Until    schemas.Millis // before; needed
	Most     int            // answers, the most frequent first; at least 1
}

// ErrorCount is how often a provider answered with one error code. Example is what
// one of the answers said, for people; it may be empty, as may the code.
type ErrorCount struct {
	Provider, Code, Example string
	Events                  int64
}

// Refused asks whose messages limits refused most, or deferred. What a limit only
// observed is none of it. A zero field asks for nothing.
type Refused struct {
	Tenant string // or AllTenants
	Class  string
	From   schemas.Millis // then or later; needed
	Until  schemas.Millis // before; needed
	Most   int            // recipients, who was refused most first; at least 1
}

// RefusedCount is how often limits refused the messages to one recipient, when
// last, and which limit then. To is not masked: whoever shows it masks it.
type RefusedCount struct {
	To      string
	Refused int64
	LastAt  schemas.Millis
	Limit   string
}
