package schemas

import (
	"slices"
	"time"
)

// Policy is one whole set of rules: what weir apply reads from YAML and what a
// revision of weir.config holds as JSON. ParsePolicy reads and validates it.
type Policy struct {
	Limits    []Limit    `json:"limits,omitempty"`
	Classes   []Class    `json:"classes,omitempty"`
	Providers []Provider `json:"providers,omitempty"`
	Routes    []Route    `json:"routes,omitempty"`
	Templates []Template `json:"templates,omitempty"`
	Tenants   []Tenant   `json:"tenants,omitempty"`
	Keys      []Key      `json:"keys,omitempty"`
	Alerts    []Alert    `json:"alerts,omitempty"`
	Inputs    []Input    `json:"inputs,omitempty"`

	// RoutesOnly rejects what no route matches; nil and false send it through any
	// provider of its channel.
	RoutesOnly *bool `json:"routes_only,omitempty"`
	// Mailboxes says which mail addresses reach one mailbox, for limits per mailbox. A
	// file without it keeps what is in force; an empty list has no rules.
	Mailboxes []Mailbox `json:"mailboxes,omitzero"`
}

// Mailbox makes addresses one mailbox: those of all its domains which differ only in
// the domain and in what these ignore. The first domain names it in scopes.
type Mailbox struct {
	Domains []string      `json:"domains"` // as they are in recipients' keys: lower case, ASCII
	Ignore  []MailboxPart `json:"ignore,omitempty"`
}

// MailboxPart is a part of the text before @ that a domain ignores.
type MailboxPart string

const (
	IgnoreDots MailboxPart = "dots"
	IgnoreTag  MailboxPart = "tag" // + and what follows
)

// Duration is a time.Duration that reads and writes as text: "60s", "1h30m",
// "31d". Policies hold whole milliseconds, never negative.
type Duration time.Duration

// Match selects messages: every field that is set must hold one of the values
// listed. Metadata maps a metadata field to the values allowed; in YAML and JSON
// it is written flat, metadata.X, and every field is a value or a list.
type Match struct {
	Tenant   []string            `json:"tenant,omitempty"`
	Channel  []string            `json:"channel,omitempty"`
	Class    []string            `json:"class,omitempty"`
	Template []string            `json:"template,omitempty"`
	Provider []string            `json:"provider,omitempty"`
	Country  []string            `json:"country,omitempty"` // ISO 3166-1 alpha-2
	Prefix   []string            `json:"prefix,omitempty"`  // digits of an E.164 number, without +
	Metadata map[string][]string `json:"metadata,omitempty"`
}

// Mode says what a limit does.
type Mode string

const (
	ModeEnforce Mode = "enforce"
	ModeObserve Mode = "observe" // the refused pass, without a place, marked
	ModeOff     Mode = "off"
)

// OnRefusal says what becomes of a message that a limit refuses.
type OnRefusal string

const (
	RefusalReject OnRefusal = "reject"
	RefusalDefer  OnRefusal = "defer" // parked until retry-at
)

// Count says what takes a place.
type Count string

const (
	CountMessage  Count = "message"  // one place, at its latest attempt, given back if it ends unreceived
	CountAttempt  Count = "attempt"  // every attempt keeps its place
	CountSegments Count = "segments" // as message, but a place for each SMS part
	CountCost     Count = "cost"     // as message, but as many places as the request's cost
)

// Limit is one rule of how many messages pass.
type Limit struct {
	Name      string     `json:"name"`
	Match     Match      `json:"match,omitzero"`
	Per       []string   `json:"per"` // recipient, mailbox, tenant, channel, class, template, content, provider, country, prefix:N, metadata.X; empty is one limit for all
	Allow     []Window   `json:"allow"`
	Timezone  string     `json:"timezone,omitempty"` // IANA; UTC when empty
	Mode      Mode       `json:"mode,omitempty"`
	OnRefusal OnRefusal  `json:"on_refusal,omitempty"`
	Count     Count      `json:"count,omitempty"`
	Exempt    []string   `json:"exempt,omitempty"`
	Overrides []Override `json:"overrides,omitempty"`
	LegacyID  int64      `json:"legacy_id,omitempty"` // its id in the legacy API, which shows limits with one
}

// Override replaces a limit's windows for one recipient.
type Override struct {
	To    string   `json:"to"`
	Allow []Window `json:"allow"`
}

// WindowKind is the shape of a window.
type WindowKind string

const (
	WindowRolling  WindowKind = "rolling"  // n in any trailing Length
	WindowCalendar WindowKind = "calendar" // n from each start of Unit in the limit's zone
	WindowBucket   WindowKind = "bucket"   // token bucket
)

// Window is one entry of allow. It reads and writes as text: "5/60s",
// "10/calendar-day", "bucket 10 refill 0.5/s".
type Window struct {
	Kind   WindowKind
	N      int64         // how many, 1 to MaxPlaces; the bucket's capacity
	Length time.Duration // rolling: 1ms to MaxWindow, whole milliseconds
	Unit   string        // calendar: minute, hour, day, month

	// A bucket gains RefillTokens every RefillEvery milliseconds: an exact
	// fraction in lowest terms, so 0.5/s is 1 every 2000. N*RefillEvery stays
	// below 2^53, so that a bucket's level can be kept in units of
	// 1/RefillEvery tokens without overflow.
	RefillTokens int64
	RefillEvery  int64
}

// OnUnknown says what becomes of a call whose outcome is unknown.
type OnUnknown string

const (
	UnknownResend OnUnknown = "resend"
	UnknownHold   OnUnknown = "hold"
)

// Class is a kind of message, with the rules for it.
type Class struct {
	Name         string      `json:"name"`
	Priority     Priority    `json:"priority,omitempty"`
	ExpiresAfter Duration    `json:"expires_after,omitempty"`
	StaleAfter   Duration    `json:"stale_after,omitempty"`
	Retries      []Duration  `json:"retries,omitzero"` // nil is the default; empty is none
	OnUnknown    OnUnknown   `json:"on_unknown,omitempty"`
	Countries    []string    `json:"countries,omitempty"`
	QuietHours   *QuietHours `json:"quiet_hours,omitempty"`
	// NextProviderOn replaces the route's; it alone may have RetryUnknown. nil is the
	// route's, empty is none.
	NextProviderOn []RetryCause `json:"next_provider_on,omitzero"`
	// Unknown is of the class "default" alone: what becomes of a message whose
	// class the policy does not declare.
	Unknown UnknownClass `json:"unknown,omitempty"`
}

// RetryCause is an outcome of a call after which a message is tried again.
type RetryCause string

const (
	RetryTransient RetryCause = "transient"
	RetryThrottled RetryCause = "throttled"
	RetryUnknown   RetryCause = "unknown" // the provider may have it, and no other knows its idempotency key
)

// RetryCauses lists every cause, and DefaultNextProviderOn those after which a
// message goes to another provider when the policy does not say.
var (
	RetryCauses           = []RetryCause{RetryTransient, RetryThrottled, RetryUnknown}
	DefaultNextProviderOn = []RetryCause{RetryTransient, RetryThrottled}
)

// UnknownClass is what becomes of a message whose class nobody declared.
type UnknownClass string

const (
	UnknownDefault UnknownClass = "default" // it has the rules of the class "default"
	UnknownReject  UnknownClass = "reject"  // it is rejected as unknown_class
)

// QuietHours are the hours in which a class's messages wait.
type QuietHours struct {
	From     string `json:"from"` // HH:MM
	To       string `json:"to"`
	Timezone string `json:"timezone,omitempty"` // IANA, or "recipient"
	Then     string `json:"then,omitempty"`     // defer | reject
}

// Provider is one way out.
type Provider struct {
	Name        string         `json:"name"`
	Type        string         `json:"type"`
	Channels    []Channel      `json:"channels"`
	Pace        []Window       `json:"pace,omitempty"` // rolling only
	Smooth      bool           `json:"smooth,omitempty"`
	Concurrency int            `json:"concurrency,omitempty"`
	Timeout     Duration       `json:"timeout,omitempty"`
	Lanes       int32          `json:"lanes,omitempty"`
	Price       *Price         `json:"price,omitempty"`
	LegacyID    int64          `json:"legacy_id,omitempty"`
	Settings    map[string]any `json:"settings,omitempty"` // secrets only as ${ENV} or file:
}

// Decimal is a number kept as the text it was written in, because money is not
// a float: "0.045". At most 10 digits before the point and 6 after it, so that the
// price of a message fits its column (PriceFits); 12 and 9 in a policy that an earlier
// version recorded, which stays in force.
type Decimal string

// Price is what a provider bills.
type Price struct {
	Currency   string  `json:"currency"`
	PerSegment Decimal `json:"per_segment,omitempty"`
	PerMessage Decimal `json:"per_message,omitempty"`
}

// Route chooses providers for the messages it matches; the first match wins.
type Route struct {
	Name     string   `json:"name"`
	Match    Match    `json:"match,omitzero"`
	To       []Target `json:"to"`
	Failover []string `json:"failover,omitempty"`
	// NextProviderOn are the outcomes after which a message prefers another of these
	// providers: DefaultNextProviderOn when nil, none when empty. Never RetryUnknown.
	NextProviderOn []RetryCause `json:"next_provider_on,omitzero"`
}

// Target is a provider with its share: 1 when the text does not say, 0 for a
// provider that stays declared and gets nothing.
type Target struct {
	Provider string `json:"provider"`
	Weight   int    `json:"weight"`
}

// Template is content with variables, written {{name}}.
type Template struct {
	Name      string                    `json:"name"`
	Channel   Channel                   `json:"channel"`
	Class     string                    `json:"class,omitempty"` // of a message over HTTP that names none
	Subject   string                    `json:"subject,omitempty"`
	Body      string                    `json:"body,omitempty"`
	HTML      string                    `json:"html,omitempty"`
	Title     string                    `json:"title,omitempty"`
	Providers map[string]map[string]any `json:"providers,omitempty"`
}

// Tenant is one customer of this Weir.
type Tenant struct {
	Name          string    `json:"name"`
	DefaultRegion string    `json:"default_region,omitempty"` // ISO 3166-1 alpha-2
	Callback      *Callback `json:"callback,omitempty"`
	Strict        bool      `json:"strict,omitempty"` // its requests over Kafka may have no unknown field

	// How often its keys may call, each for itself: see Key.
	Rates  map[string]Window `json:"rates,omitempty"`
	Smooth bool              `json:"smooth,omitempty"`
	// TotalRates is how often all its keys may call together.
	TotalRates map[string]Window `json:"total_rates,omitempty"`
	// PolicyBytes is how much of the policy edits by the tenant's keys may make the
	// tenant's own entries take; DefaultPolicyBytes when 0.
	PolicyBytes int64 `json:"policy_bytes,omitempty"`
}

// Callback is where a tenant's status changes go. Without URL only those of
// messages whose request names a callback_url of its own are told.
type Callback struct {
	URL    string `json:"url,omitempty"`
	Secret string `json:"secret"`
	// PreviousSecret is the one before a rotation: both sign until it is taken out.
	PreviousSecret string   `json:"previous_secret,omitempty"`
	Events         []string `json:"events,omitempty"`
}

// Key is an API key, stored hashed. How often it may call is its own rate of a
// kind of call (KeyRates), else its tenant's, else ingest/throttle's default.
type Key struct {
	Name      string            `json:"name"`
	Tenant    string            `json:"tenant"`
	Scopes    []string          `json:"scopes"`
	Hash      string            `json:"hash,omitempty"`     // HashSecret; always there in a policy, never over HTTP
	Previous  *PreviousKey      `json:"previous,omitempty"` // the secret before the last rotation
	Test      bool              `json:"test,omitempty"`     // its secrets begin with TestPrefix
	ExpiresAt Millis            `json:"expires_at,omitzero"`
	Prefer    string            `json:"prefer,omitempty"`
	Class     string            `json:"class,omitempty"` // of a message that names none, and whose template names none
	Rates     map[string]Window `json:"rates,omitempty"`
	Smooth    bool              `json:"smooth,omitempty"` // calls over the pace wait their turn; so too if the tenant's is
	// OnUnavailable is the answer to POST /v1/decisions while Kafka is unreachable or gives
	// no decision: UnavailableAllow, or a refusal when empty.
	OnUnavailable string `json:"on_unavailable,omitempty"`
}

// UnavailableAllow allows what cannot be decided: a value of Key.OnUnavailable.
const UnavailableAllow = "allow"

// May reports whether the key has a scope. admin is policy, keys and operate.
func (k *Key) May(scope string) bool {
	switch scope {
	case "policy", "keys", "operate":
		return slices.Contains(k.Scopes, scope) || slices.Contains(k.Scopes, "admin")
	case "admin":
		return k.May("policy") && k.May("keys") && k.May("operate")
	}
	return slices.Contains(k.Scopes, scope)
}

// PreviousKey is a secret that has been replaced and is good a while longer, so
// that programs can be given the new one in their own time.
type PreviousKey struct {
	Hash      string `json:"hash,omitempty"`
	ExpiresAt Millis `json:"expires_at"`
}

// Of what an alert tells: values of Alert.When.
const (
	AlertLimitObserved   = "limit.observed"   // a limit in observe mode would have refused a message; it was sent
	AlertLimitRefused    = "limit.refused"    // a limit refused a message, or let it wait
	AlertBreakerOpen     = "breaker.open"     // a provider's breaker is open, as one of its lanes sees it
	AlertDLQRecord       = "dlq.record"       // a message was given up on
	AlertSinkDifference  = "sink.difference"  // ClickHouse lacks rows, has too many, or cannot be written to
	AlertClockStall      = "clock.stall"      // a worker's clock is ahead of the broker's: it decides nothing
	AlertStageStuck      = "stage.stuck"      // a stage of a process has had work for a minute and has committed nothing
	AlertAudit           = "audit"            // the last audit found a violation, or one that follows has judged nothing for five minutes
	AlertProviderStalled = "provider.stalled" // messages wait for a provider, and no call is made
	AlertLag             = "lag"              // a stage has left a record unread for longer than AlertLagAfter
)

// AlertLagAfter is how long a stage may leave a record unread before AlertLag. A
// restart or a deployment takes less.
const AlertLagAfter = 2 * time.Minute

// Alert says whom to tell of what.
type Alert struct {
	Name   string         `json:"name"`
	To     map[string]any `json:"to"`
	When   []string       `json:"when"`
	AtMost string         `json:"at_most,omitempty"` // DefaultAtMost when empty
}

// Input binds a further topic to one tenant.
type Input struct {
	Topic  string `json:"topic"`
	Tenant string `json:"tenant"`
	Strict bool   `json:"strict,omitempty"` // as the tenant's, for this topic alone
}

// What a policy's fields are when it does not say.
const (
	DefaultExpiresAfter = 72 * time.Hour
	DefaultConcurrency  = 64
	DefaultTimeout      = 10 * time.Second
	DefaultLanes        = 1
	DefaultPriority     = PriorityNormal
	DefaultOnUnknown    = UnknownResend
	DefaultTimezone     = "UTC"
	DefaultWeight       = 1
	DefaultAtMost       = "1/10m"
	DefaultPolicyBytes  = 64 << 10 // of a tenant
)

// How long after the decision that charged it a message may be called, where its class
// has no stale_after: a tenth of the smallest window that it was charged in, within
// these bounds; the longest where it was charged nothing.
const (
	SlackPart  = 10
	SlackLeast = time.Second
	SlackMost  = time.Minute
)

// Bounds of a policy.
const (
	MaxWindow      = 31 * 24 * time.Hour
	MaxPlaces      = 1_000_000_000 // n of a window
	MaxRolling     = 100_000       // n of a limit's rolling window: the time of each place is kept
	MaxAlerts      = 100           // n of an alert's at_most
	MaxRateRolling = 10_000        // n of a rate's rolling window, likewise
	MaxWindows     = 16            // entries of one allow or pace
	MaxRetries     = 32            // waits of one class
	MaxTimeout     = 5 * time.Minute
	MaxConcurrency = 10_000
	MaxLanes       = 128
	MaxPolicyBytes = 4 << 20 // of a policy, as YAML or as JSON
	MaxMailboxes   = 100     // entries of mailboxes, and domains of one
)

// PolicyName is the form of every name that a policy declares.
const PolicyName = `^[a-z0-9-]{1,64}$`

// DefaultRetries are the waits between attempts.
var DefaultRetries = []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}
