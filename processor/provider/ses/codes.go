package ses

import (
	"slices"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/aws"
	"github.com/weirhq/weir/schemas"
)

var codes = provider.Codes{
	Sources: slices.Concat([]provider.Source{
		{Title: "Amazon SES API v2: SendEmail, errors", URL: "https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html"},
		{Title: "Amazon SES: errors related to the sending quotas", URL: "https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html"},
		{Title: "Amazon SES: contents of event data that SES publishes to SNS", URL: "https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html"},
		{Title: "Amazon SES: SNS notification contents", URL: "https://docs.aws.amazon.com/ses/latest/dg/notification-contents.html"},
	}, aws.Sources),
	Send: slices.Concat([]provider.Code{
		{Code: "AccountSuspendedException", Kind: provider.Transient, Means: "the account may send no more, for good"},
		{Code: "SendingPausedException", Kind: provider.Transient, Means: "the account's sending is paused"},
		{Code: "BadRequestException", Kind: provider.Permanent, Means: "the service did not understand the request"},
		{Code: "LimitExceededException", Kind: provider.Throttled, OfProvider: true, Means: "a limit of the account is reached"},
		{Code: "TooManyRequestsException", Kind: provider.Throttled, OfProvider: true, Means: "too many calls"},
		{Code: "MailFromDomainNotVerifiedException", Kind: provider.Permanent, Means: "the sending domain is not verified"},
		{Code: "MessageRejected", Kind: provider.Permanent, Means: "refused for its content, or an address is not verified (the sandbox)"},
		{Code: "NotFoundException", Kind: provider.Permanent, Means: "something that the call names does not exist, such as the configuration set"},
		{Code: "InternalServiceErrorException", Kind: provider.Transient, MayBeReceived: true, Means: "an error within the service"},
	}, aws.Common),
	Else: aws.Else,
	Receipt: []provider.Code{
		{Code: "Bounce/Permanent/*", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the mailbox refused it for good"},
		{Code: "Bounce/Permanent/NoEmail", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the mailbox does not exist"},
		{Code: "Bounce/Permanent/Suppressed", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the address is on SES's own suppression list: it bounced lately"},
		{Code: "Bounce/Permanent/OnAccountSuppressionList", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the address is on the account's suppression list at SES"},
		{Code: "Bounce/Transient/*", Kind: provider.Permanent, Means: "the mailbox did not take it, and SES gave up"},
		{Code: "Bounce/Transient/MailboxFull", Kind: provider.Permanent, Means: "the mailbox is full"},
		{Code: "Bounce/Transient/MessageTooLarge", Kind: provider.Permanent, Means: "the message is too big for the mailbox"},
		{Code: "Bounce/Transient/ContentRejected", Kind: provider.Permanent, Means: "refused for its content"},
		{Code: "Bounce/Transient/AttachmentRejected", Kind: provider.Permanent, Means: "refused for an attachment"},
		{Code: "Bounce/Undetermined/*", Kind: provider.Permanent, Means: "it bounced, and SES cannot tell why"},
		{Code: "Complaint", Suppress: schemas.SuppressComplaint, Means: "marked as spam"},
		{Code: "Complaint/*", Suppress: schemas.SuppressComplaint, Means: "marked as spam"},
		{Code: "Complaint/not-spam", Means: "marked as no spam after all"},
		{Code: "Complaint/OnAccountSuppressionList", Kind: provider.Permanent, Suppress: schemas.SuppressComplaint, Means: "the address is on the account's suppression list at SES, for a complaint"},
		{Code: "Reject", Kind: provider.Permanent, Means: "SES found a virus in it"},
		{Code: "Rendering Failure", Kind: provider.Permanent, Means: "SES could not make the message"},
		{Code: "Delivery", Kind: provider.Accepted, Means: "delivered"},
		{Code: "DeliveryDelay", Means: "SES tries again"},
	},
}
