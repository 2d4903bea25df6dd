package schemas

// Receipt is what a provider tells later about a message that it took: the value of
// weir.receipts. It names the message by Weir's id or by the provider's own. What it
// says of the message is a claim: only a Reference with Weir's signature proves it,
// and without one the message is looked up.
type Receipt struct {
	Provider          string  `json:"provider"` // its name in the policy
	MessageID         string  `json:"message_id,omitempty"`
	ProviderMessageID string  `json:"provider_message_id,omitempty"`
	Reference         string  `json:"reference,omitempty"` // what Weir gave the provider, as it came back; with a signature
	To                string  `json:"to,omitempty"`        // canonical recipient
	Tenant            string  `json:"tenant,omitempty"`
	Channel           Channel `json:"channel,omitempty"`
	Class             string  `json:"class,omitempty"`
	Template          string  `json:"template,omitempty"`
	Attempt           int     `json:"attempt,omitempty"`
	Status            Status  `json:"status,omitempty"` // delivered or undelivered; empty where it says neither, such as a complaint
	At                Millis  `json:"at,omitzero"`      // when, as the provider says; when it came where it does not
	Code              string  `json:"error_code,omitempty"`
	Text              string  `json:"error,omitempty"` // for people; holds no recipient, body or secret
	// Suppress says that the recipient must not be sent to again on this channel by
	// this tenant, and why: hard_bounce, complaint, opted_out, invalid.
	Suppress SuppressReason `json:"suppress,omitempty"`
}

// ReasonUnmatchedReceipt is why a receipt stands in weir.dlq: nobody knows the message
// that it is about. It is no message, so that it cannot be sent again.
const ReasonUnmatchedReceipt = "unmatched_receipt"

// ReasonUnreadableReceipt is that of a record of weir.receipts that is no receipt.
const ReasonUnreadableReceipt = "unreadable_receipt"

// Reasons for which a record of one of Weir's own topics is put aside: someone
// other than Weir wrote it, or it is in a partition that does not own it.
const (
	ReasonForeignRecord   = "foreign_record"
	ReasonMisroutedRecord = "misrouted_record"
)

// SuppressReason is why a recipient is suppressed, where Weir itself asked for it.
// It travels as the suppress request's metadata.reason.
type SuppressReason string

const (
	SuppressHardBounce SuppressReason = "hard_bounce" // the mailbox or number does not exist
	SuppressComplaint  SuppressReason = "complaint"   // marked as spam
	SuppressOptedOut   SuppressReason = "opted_out"   // the recipient told the provider so
	SuppressInvalid    SuppressReason = "invalid"     // a token or number that is no longer anybody's
	SuppressStop       SuppressReason = "stop"        // a STOP word came in
)

// What a suppress or unsuppress request says in its metadata, beside whom it is about
// and in what scope. They are kept with the suppression and stand in its decision.
const (
	MetaReason   = "reason"   // why: a SuppressReason, or at most MaxSuppressReason characters of anybody's
	MetaProvider = "provider" // whose answer or receipt it came of, by its name in the policy
)

// MaxSuppressReason bounds a suppression's reason, in characters.
const MaxSuppressReason = 64
