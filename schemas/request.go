package schemas

// Action tells what a record of weir.requests asks for. The empty action is a
// send request.
type Action string

const (
	ActionSend       Action = ""
	ActionCancel     Action = "cancel"
	ActionSuppress   Action = "suppress" // the recipient opted out, until expires_at where it says; metadata.reason is kept with it
	ActionUnsuppress Action = "unsuppress"
	ActionRecord     Action = "record"  // a message sent elsewhere: takes its place, sends nothing
	ActionRelease    Action = "release" // gives back the places of a decision without sending
)

// Actions lists every action.
var Actions = []Action{ActionSend, ActionCancel, ActionSuppress, ActionUnsuppress, ActionRecord, ActionRelease}

// Channel is the kind of delivery.
type Channel string

const (
	ChannelSMS     Channel = "sms"
	ChannelVoice   Channel = "voice"
	ChannelEmail   Channel = "email"
	ChannelPush    Channel = "push"
	ChannelWebhook Channel = "webhook"
)

// Channels lists every channel.
var Channels = []Channel{ChannelSMS, ChannelVoice, ChannelEmail, ChannelPush, ChannelWebhook}

// Priority orders messages within a lane.
type Priority string

const (
	PriorityUrgent Priority = "urgent"
	PriorityNormal Priority = "normal"
	PriorityBulk   Priority = "bulk"
)

// What a request is when it does not say.
const (
	DefaultTenant = "default"
	DefaultClass  = "default"
)

// Bounds of a request.
const (
	MaxRequestBytes  = 256 << 10 // of the whole encoded request
	MaxMetadataPairs = 16
	MaxMetadataBytes = 4 << 10 // keys and values together
	MaxCost          = 1_000_000
)

// Request is the value of a weir.requests record and the body of
// POST /v1/messages.
type Request struct {
	Action         Action            `json:"action,omitempty"`
	Tenant         string            `json:"tenant,omitempty"`
	Channel        Channel           `json:"channel,omitempty"`
	To             string            `json:"to,omitempty"`
	Class          string            `json:"class,omitempty"`
	Template       string            `json:"template,omitempty"`
	Vars           map[string]string `json:"vars,omitempty"`
	Subject        string            `json:"subject,omitempty"`
	Body           string            `json:"body,omitempty"`
	HTML           string            `json:"html,omitempty"`
	ReplyTo        string            `json:"reply_to,omitempty"`
	Title          string            `json:"title,omitempty"`
	Data           map[string]string `json:"data,omitempty"`
	From           string            `json:"from,omitempty"`
	Priority       Priority          `json:"priority,omitempty"`
	Provider       string            `json:"provider,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	ID             string            `json:"id,omitempty"`
	SendAt         Millis            `json:"send_at,omitzero"`
	ExpiresAt      Millis            `json:"expires_at,omitzero"`
	CallbackURL    string            `json:"callback_url,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	At             Millis            `json:"at,omitzero"`    // record: when it was sent elsewhere
	Cost           int               `json:"cost,omitempty"` // places it takes in limits with count: cost, 1 to MaxCost; 0 is 1

	// Unknown names what else the bytes had and Weir ignores, where they came over
	// Kafka: at most 8 names, OtherField for those that are not repeated.
	Unknown []string `json:"-"`
}
