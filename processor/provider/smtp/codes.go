package smtp

import (
	"context"
	"errors"
	"net"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// codes are those of replies. A reply goes by its enhanced status code, and by its
// three digits where the relay gives none. Those of notifications (RFC 3464) are the
// same.
var codes = provider.Codes{
	Sources: []provider.Source{
		{Title: "RFC 5321, Simple Mail Transfer Protocol, 4.2.3: reply codes in numeric order", URL: "https://www.rfc-editor.org/rfc/rfc5321#section-4.2.3"},
		{Title: "RFC 3463, Enhanced Mail System Status Codes", URL: "https://www.rfc-editor.org/rfc/rfc3463"},
		{Title: "IANA, SMTP Enhanced Status Codes Registry (RFC 5248)", URL: "https://www.iana.org/assignments/smtp-enhanced-status-codes/"},
		{Title: "RFC 4954, SMTP service extension for authentication, 6: status codes", URL: "https://www.rfc-editor.org/rfc/rfc4954#section-6"},
		{Title: "Amazon SES: errors related to the sending quotas (454 of its SMTP interface)", URL: "https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html"},
	},
	Send: []provider.Code{
		{Code: "5.1.1", Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressHardBounce, Means: "the mailbox does not exist"},
		{Code: "5.1.2", Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressHardBounce, Means: "the domain does not exist or takes no mail"},
		{Code: "5.1.3", Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressHardBounce, Means: "the address is malformed"},
		{Code: "5.1.6", Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressHardBounce, Means: "the mailbox has moved, and nobody says where to"},
		{Code: "5.1.7", Kind: provider.Permanent, Means: "the sender's address is malformed"},
		{Code: "5.1.8", Kind: provider.Permanent, Means: "the sender's domain does not exist"},
		{Code: "5.1.10", Kind: provider.Permanent, OfRecipient: true, Suppress: schemas.SuppressHardBounce, Means: "the domain says that it takes no mail (null MX)"},
		{Code: "5.1.*", Kind: provider.Permanent, OfRecipient: true, Means: "something is wrong with the address"},
		// A mailbox that is disabled for good, or only just now: some say it of one
		// that gets too much. It is not suppressed.
		{Code: "5.2.1", Kind: provider.Permanent, OfRecipient: true, Means: "the mailbox is disabled"},
		{Code: "5.2.2", Kind: provider.Permanent, OfRecipient: true, Means: "the mailbox is full"},
		{Code: "5.2.3", Kind: provider.Permanent, OfRecipient: true, Means: "the message is too long for the mailbox"},
		{Code: "5.2.*", Kind: provider.Permanent, OfRecipient: true, Means: "something is wrong with the mailbox"},
		{Code: "5.3.4", Kind: provider.Permanent, Means: "the message is too big"},
		{Code: "5.3.*", Kind: provider.Permanent, Means: "the mail system refused it"},
		{Code: "5.4.*", Kind: provider.Permanent, Means: "there is no way to the recipient's system"},
		{Code: "5.5.*", Kind: provider.Permanent, Means: "the relay did not understand it"},
		{Code: "5.6.*", Kind: provider.Permanent, Means: "the message's content cannot be carried"},
		{Code: "5.7.1", Kind: provider.Permanent, Means: "refused by policy: sender, content or relaying is not allowed"},
		{Code: "5.7.8", Kind: provider.Transient, Means: "the user name or password is wrong"},
		{Code: "5.7.*", Kind: provider.Permanent, Means: "refused by policy or for security"},
		{Code: "5.0.*", Kind: provider.Permanent, Means: "refused"},

		{Code: "4.2.1", Kind: provider.Transient, OfRecipient: true, Means: "the mailbox takes nothing just now"},
		{Code: "4.2.2", Kind: provider.Transient, OfRecipient: true, Means: "the mailbox is full"},
		{Code: "4.2.*", Kind: provider.Transient, OfRecipient: true, Means: "something is wrong with the mailbox just now"},
		{Code: "4.1.*", Kind: provider.Transient, OfRecipient: true, Means: "the address cannot be checked just now"},
		{Code: "4.4.5", Kind: provider.Throttled, OfProvider: true, Means: "the mail system is congested"},
		{Code: "4.5.3", Kind: provider.Throttled, Means: "too many recipients for now"},
		{Code: "4.7.*", Kind: provider.Throttled, Means: "not now, by policy: too fast, or greylisted"},
		{Code: "4.0.*", Kind: provider.Transient, Means: "not now"},
		{Code: "4.3.*", Kind: provider.Transient, Means: "the mail system takes nothing just now"},
		{Code: "4.4.*", Kind: provider.Transient, Means: "there is no way to the recipient's system just now"},
		{Code: "4.5.*", Kind: provider.Transient, Means: "the relay did not understand it, just now"},
		{Code: "4.6.*", Kind: provider.Transient, Means: "the message's content cannot be carried just now"},

		{Code: "421", Kind: provider.Throttled, OfProvider: true, Means: "the relay closes the connection: shutting down, or too many"},
		{Code: "450", Kind: provider.Transient, OfRecipient: true, Means: "the mailbox is busy, or blocked for now"},
		{Code: "451", Kind: provider.Transient, Means: "an error within the relay"},
		{Code: "452", Kind: provider.Transient, Means: "the relay has no storage left"},
		{Code: "454", Kind: provider.Throttled, OfProvider: true, Means: "temporarily: a quota (Amazon SES), or logging in fails just now"},
		{Code: "4*", Kind: provider.Transient, Means: "not now"},

		{Code: "530", Kind: provider.Transient, Means: "the relay wants a login, or TLS first"},
		{Code: "534", Kind: provider.Transient, Means: "this way to log in is too weak for the relay"},
		{Code: "535", Kind: provider.Transient, Means: "the user name or password is wrong"},
		{Code: "538", Kind: provider.Transient, Means: "logging in needs TLS"},
		// The recipient's mailbox, or "relaying denied" to everybody: RFC 5321 has one
		// code for both, so nobody is suppressed for it.
		{Code: "550", Kind: provider.Permanent, OfRecipient: true, Means: "the mailbox is not available: not found, no access, or policy"},
		{Code: "551", Kind: provider.Permanent, OfRecipient: true, Means: "the user is not here"},
		{Code: "552", Kind: provider.Permanent, OfRecipient: true, Means: "the mailbox has no room"},
		{Code: "553", Kind: provider.Permanent, OfRecipient: true, Means: "the mailbox's name is not allowed"},
		{Code: "554", Kind: provider.Permanent, Means: "the transaction failed"},
		{Code: "5*", Kind: provider.Permanent, Means: "refused"},
	},
	Else: provider.Code{Kind: provider.Transient, Means: "an answer that is none of SMTP's"},
	Receipt: []provider.Code{
		{Code: "5.1.1", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the mailbox does not exist"},
		{Code: "5.1.2", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the domain does not exist or takes no mail"},
		{Code: "5.1.3", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the address is malformed"},
		{Code: "5.1.6", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the mailbox has moved, and nobody says where to"},
		{Code: "5.1.10", Kind: provider.Permanent, Suppress: schemas.SuppressHardBounce, Means: "the domain says that it takes no mail (null MX)"},
		{Code: "5.2.2", Kind: provider.Permanent, Means: "the mailbox is full"},
		{Code: "5.7.*", Kind: provider.Permanent, Means: "refused by policy or for security"},
		{Code: "5.*", Kind: provider.Permanent, Means: "it could not be delivered"},
		{Code: "4.4.7", Kind: provider.Permanent, Means: "it could not be delivered in time"},
		{Code: "4.*", Kind: provider.Permanent, Means: "it could not be delivered, and the relay gave up"},
		{Code: "2.*", Kind: provider.Accepted, Means: "delivered"},
		{Code: "abuse", Suppress: schemas.SuppressComplaint, Means: "marked as spam (RFC 5965)"},
		{Code: "fraud", Suppress: schemas.SuppressComplaint, Means: "reported as fraud (RFC 5965)"},
		{Code: "opt-out", Suppress: schemas.SuppressOptedOut, Means: "the recipient told its mail provider that it wants no more"},
	},
}

// stage is how far a message came.
type stage int

const (
	stageConnect stage = iota
	stageMail
	stageRcpt
	stageData
	stageDot
)

var enhanced = regexp.MustCompile(`^([245]\.[0-9]{1,3}\.[0-9]{1,3})(?:[ \n]|$)`)

// answered reports whether an error is a reply of the relay's.
func answered(err error) bool { return replyOf(err) != 0 }

func replyOf(err error) int {
	if e, ok := errors.AsType[*textproto.Error](err); ok && e.Code >= 200 && e.Code <= 599 {
		return e.Code
	}
	return 0
}

// codeOf is what a reply goes by in the table.
func codeOf(e *textproto.Error) string {
	if m := enhanced.FindStringSubmatch(e.Msg); m != nil && int(m[1][0]-'0') == e.Code/100 {
		if row, ok := codes.Of(m[1]); ok && strings.Contains(row.Code, ".") {
			return m[1]
		}
	}
	return strconv.Itoa(e.Code)
}

// unsent is what comes of a message of which the relay surely does not have all.
func unsent(ctx context.Context, at stage, err error) provider.Outcome {
	if e, ok := errors.AsType[*textproto.Error](err); ok && answered(err) {
		o := codes.Outcome(codeOf(e))
		if at != stageRcpt && at != stageDot {
			// What is refused before the recipient is named is not the recipient's.
			o.OfRecipient, o.Suppress = false, ""
			o.OfProvider = o.Kind == provider.Throttled
		}
		if at == stageConnect && o.Kind == provider.Permanent {
			o.Kind = provider.Transient // the relay takes nobody, or not this login: that says nothing of the message
		}
		return o
	}
	o := provider.Outcome{Kind: provider.Transient}
	_, dial := errors.AsType[*dialError](err)
	late := tooLate(ctx, err)
	switch {
	case errors.Is(err, errNoTLS):
		o.Code, o.Text = "no_tls", errNoTLS.Error()
	case errors.Is(err, errNoAuth):
		o.Code, o.Text = "no_auth", errNoAuth.Error()
	case late && (dial || at == stageConnect):
		o.Code, o.Text = "connect_timeout", "no connection before the deadline"
	case dial:
		o.Code, o.Text = "not_connected", "no connection: "+reason(err)
	case late:
		o.Code, o.Text = "not_written", "the deadline came before all of the message was written"
	default:
		o.Code, o.Text = "not_written", "it ended before all of the message was written: "+reason(err)
	}
	return o
}

// tooLate reports whether the deadline ended it: the connection's may come a moment
// before that of ctx, whose time it has.
func tooLate(ctx context.Context, err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ctx.Err() != nil || ok && e.Timeout()
}
