package client

import "github.com/weirhq/weir/schemas"

// Accepted is the answer to a message that the brokers hold.
type Accepted struct {
	ID     string         `json:"id"`
	Status schemas.Status `json:"status"`
}

// Message is what is known of a message: its state, and every step that led to
// it in the order of the log. Times are RFC 3339 in UTC with milliseconds;
// absent means empty or 0.
//
// Status is the one of the highest rank in the timeline, among equals the
// latest; At, Reason, Limit, Window, RetryAt, ErrorCode, Error and DuplicateOf
// belong to that step. Provider, ProviderMessageID and Segments are the latest
// known. AcceptedAt is the broker's append time of the request, and until there
// is a step, this server's clock.
type Message struct {
	ID                string           `json:"id"`
	Status            schemas.Status   `json:"status"`
	Tenant            string           `json:"tenant,omitempty"`
	Channel           string           `json:"channel,omitempty"`
	Class             string           `json:"class,omitempty"`
	Template          string           `json:"template,omitempty"`
	To                string           `json:"to,omitempty"` // canonical where it could be read
	Attempt           int              `json:"attempt,omitempty"`
	AcceptedAt        schemas.Millis   `json:"accepted_at,omitzero"`
	At                schemas.Millis   `json:"at,omitzero"` // when it came to Status
	Reason            string           `json:"reason,omitempty"`
	Provider          string           `json:"provider,omitempty"`
	ProviderMessageID string           `json:"provider_message_id,omitempty"`
	ErrorCode         string           `json:"error_code,omitempty"`
	Error             string           `json:"error,omitempty"`
	Limit             string           `json:"limit,omitempty"`  // what refused it
	Window            string           `json:"window,omitempty"` // as printed in the policy: 1/60s
	RetryAt           schemas.Millis   `json:"retry_at,omitzero"`
	Segments          int              `json:"segments,omitempty"`
	DuplicateOf       string           `json:"duplicate_of,omitempty"`
	RedriveOf         string           `json:"redrive_of,omitempty"`
	Observed          bool             `json:"observed,omitempty"` // a limit in observe mode would have refused it
	Timeline          []*schemas.Event `json:"timeline"`
}
