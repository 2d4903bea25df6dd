package twilio

import (
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// codes are those of sending, and of what comes back later. Of receipts, statuses
// stand beside error codes: the code decides where a receipt has one.
var codes = provider.Codes{
	Sources: []provider.Source{
		{Title: "Twilio, Error and Warning Dictionary", URL: "https://www.twilio.com/docs/api/errors"},
		{Title: "Twilio, the same as data (twilio-error-codes.json)", URL: "https://www.twilio.com/docs/api/errors/twilio-error-codes.json"},
		{Title: "Twilio, Outbound Message Status in Status Callbacks", URL: "https://www.twilio.com/docs/messaging/guides/outbound-message-status-in-status-callbacks"},
		{Title: "Twilio, Call resource: status values", URL: "https://www.twilio.com/docs/voice/api/call-resource#call-status-values"},
	},
	Send: []provider.Code{
		{Code: "20003", Kind: provider.Permanent, Means: "the credentials are refused"},
		// What happens to an account that was well its operator mends: until then
		// messages wait, or go elsewhere (20403 too).
		{Code: "20005", Kind: provider.Transient, Means: "the account is not active: it may be out of funds"},
		{Code: "20006", Kind: provider.Permanent, Means: "the credentials may not do this"},
		{Code: "20403", Kind: provider.Transient, Means: "the account is suspended or closed"},
		{Code: "20404", Kind: provider.Permanent, Means: "not found: the account's SID is wrong"},
		{Code: "20429", Kind: provider.Throttled, Means: "too many requests at once"},
		{Code: "20500", Kind: provider.Transient, MayBeReceived: true, Means: "the API failed, perhaps after it took the message"},
		{Code: "20503", Kind: provider.Transient, Means: "the API is not available"},
		{Code: "21201", Kind: provider.Permanent, Means: "the call has no recipient"},
		{Code: "21202", Kind: provider.Permanent, OfRecipient: true, Means: "the recipient is a premium number"},
		{Code: "21203", Kind: provider.Permanent, Means: "international calls are not enabled"},
		{Code: "21205", Kind: provider.Permanent, Means: "an address of the call is not valid"},
		{Code: "21210", Kind: provider.Permanent, Means: "the sender's number is not verified"},
		{Code: "21211", Kind: provider.Permanent, Suppress: schemas.SuppressInvalid, Means: "the recipient is not a valid number"},
		{Code: "21212", Kind: provider.Permanent, Means: "the sender is not a valid number or name"},
		{Code: "21213", Kind: provider.Permanent, Means: "the call has no sender"},
		{Code: "21214", Kind: provider.Permanent, OfRecipient: true, Means: "the recipient cannot be reached by calls"},
		{Code: "21215", Kind: provider.Permanent, Means: "the account's geographic permissions exclude the recipient's country"},
		{Code: "21216", Kind: provider.Permanent, OfRecipient: true, Means: "Twilio blocks calls to the recipient"},
		{Code: "21217", Kind: provider.Permanent, Suppress: schemas.SuppressInvalid, Means: "the recipient is not a valid number"},
		{Code: "21219", Kind: provider.Permanent, Means: "a trial account calls verified numbers only"},
		{Code: "21408", Kind: provider.Permanent, Means: "the account may not send to the recipient's region"},
		{Code: "21601", Kind: provider.Permanent, Means: "the sender cannot send short messages"},
		{Code: "21602", Kind: provider.Permanent, Means: "the message has no text"},
		{Code: "21603", Kind: provider.Permanent, Means: "the message has no sender"},
		{Code: "21604", Kind: provider.Permanent, Means: "the message has no recipient"},
		{Code: "21606", Kind: provider.Permanent, Means: "the sender cannot send short messages"},
		{Code: "21608", Kind: provider.Permanent, Means: "a trial account sends to verified numbers only"},
		{Code: "21609", Kind: provider.Permanent, Means: "the address for receipts is not valid: look at http.public_url"},
		{Code: "21610", Kind: provider.Permanent, Suppress: schemas.SuppressOptedOut, Means: "the recipient has answered STOP"},
		{Code: "21611", Kind: provider.Throttled, Means: "the sender's queue at Twilio is full"},
		{Code: "21612", Kind: provider.Permanent, OfRecipient: true, Means: "this sender cannot reach this recipient"},
		{Code: "21614", Kind: provider.Permanent, Suppress: schemas.SuppressInvalid, Means: "the recipient is not a mobile number"},
		{Code: "21617", Kind: provider.Permanent, Means: "the text is over 1600 characters"},
		{Code: "21658", Kind: provider.Permanent, Means: "a parameter is too long"},
		{Code: "32018", Kind: provider.Permanent, Means: "the call's TwiML is over 4000 characters"},
		{Code: "63017", Kind: provider.Throttled, Means: "the account sends too fast"},
		{Code: "63038", Kind: provider.Throttled, Means: "the account's messages of 24 hours are used up"},
	},
	Else: provider.Code{Kind: provider.Permanent, Means: "the request is refused"},
	Receipt: []provider.Code{
		// MessageStatus
		{Code: "accepted", Means: "Twilio has it"},
		{Code: "scheduled", Means: "Twilio sends it later"},
		{Code: "queued", Means: "it waits at Twilio"},
		{Code: "sending", Means: "it is on its way to the carrier"},
		{Code: "sent", Means: "the carrier took it"},
		{Code: "delivered", Kind: provider.Accepted, Means: "the carrier confirms that it arrived"},
		{Code: "read", Kind: provider.Accepted, Means: "it was read"},
		{Code: "undelivered", Kind: provider.Permanent, Means: "it did not arrive"},
		{Code: "failed", Kind: provider.Permanent, Means: "it was not sent, or the call could not be connected"},
		{Code: "canceled", Kind: provider.Permanent, Means: "it was cancelled"},
		// CallStatus
		{Code: "initiated", Means: "the call is dialled"},
		{Code: "ringing", Means: "it rings"},
		{Code: "in-progress", Means: "the call is answered"},
		{Code: "completed", Kind: provider.Accepted, Means: "the call was answered and has ended"},
		{Code: "busy", Kind: provider.Permanent, OfRecipient: true, Means: "the line is busy"},
		{Code: "no-answer", Kind: provider.Permanent, OfRecipient: true, Means: "nobody answered"},
		// ErrorCode
		{Code: "21610", Kind: provider.Permanent, Suppress: schemas.SuppressOptedOut, Means: "the recipient has answered STOP"},
		{Code: "30001", Kind: provider.Permanent, Means: "the queue at Twilio ran over"},
		{Code: "30002", Kind: provider.Permanent, Means: "the account is suspended"},
		{Code: "30003", Kind: provider.Permanent, OfRecipient: true, Means: "the handset is off or out of reach"},
		{Code: "30004", Kind: provider.Permanent, OfRecipient: true, Means: "the recipient or the carrier blocks it"},
		{Code: "30005", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the number is unknown to the carrier"},
		{Code: "30006", Kind: provider.Permanent, Suppress: schemas.SuppressInvalid, Means: "a landline, or a carrier that takes no short messages"},
		{Code: "30007", Kind: provider.Permanent, Means: "filtered as spam"},
		{Code: "30008", Kind: provider.Permanent, Means: "the carrier does not say why"},
		{Code: "30009", Kind: provider.Permanent, Means: "a part of it was lost"},
		{Code: "30010", Kind: provider.Permanent, Means: "its price is over the limit"},
		{Code: "30022", Kind: provider.Permanent, Means: "the campaign sends faster than the carrier allows"},
		{Code: "30036", Kind: provider.Permanent, Means: "it waited for longer than it is valid"},
		{Code: "63017", Kind: provider.Permanent, Means: "the account sends too fast"},
		{Code: "63038", Kind: provider.Permanent, Means: "the account's messages of 24 hours are used up"},
	},
}
