package recipient

import (
	"fmt"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weirhq/weir/schemas"
	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// Recipient is whom a message is for.
type Recipient struct {
	Key     string // canonical; never empty
	Country string // of a phone: ISO 3166-1 alpha-2; empty for other channels and for numbers of no country
	// Spelled is where mail goes, if that is not Key: the address with the local part
	// as the request wrote it. Before folding it was the key.
	Spelled string
}

// Address is what a provider is called with: the key, or a mail address in the
// spelling of the request.
func (r Recipient) Address() string {
	if r.Spelled != "" {
		return r.Spelled
	}
	return r.Key
}

// Reason is why a recipient is refused: stable text for status events.
type Reason string

const (
	ReasonMissing        Reason = "missing_recipient"
	ReasonPhone          Reason = "bad_recipient_phone"
	ReasonEmail          Reason = "bad_recipient_email"
	ReasonPush           Reason = "bad_recipient_push"
	ReasonWebhook        Reason = "bad_recipient_webhook"
	ReasonUnknownChannel Reason = "unknown_channel"
)

// Error says why a recipient is refused. It never holds the recipient, so that
// it can be logged.
type Error struct {
	Reason Reason
	Detail string // for people
}

func (e *Error) Error() string { return e.Detail }

// Code returns the reason as it stands in a status event.
func (e *Error) Code() string { return string(e.Reason) }

func fail(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(format, args...)}
}

// Bounds of a recipient's text, in bytes. None is below what exists in practice.
const (
	maxPhone   = 128  // a spelling with all its punctuation; a number has at most 15 digits (E.164)
	maxEmail   = 254  // RFC 5321, section 4.5.3.1.3, without the angle brackets
	maxLocal   = 64   // RFC 5321, section 4.5.3.1.1
	maxPush    = 1024 // tokens of APNs and FCM are below 300
	maxWebhook = 2048
)

// Canonical returns the recipient that the text names on a channel.
// defaultRegion (ISO 3166-1 alpha-2, may be empty) is the country in which a
// phone number without + is read. Canonical of a key is that key. It may be
// called from many goroutines.
//
// The error is always an [*Error].
func Canonical(channel schemas.Channel, to, defaultRegion string) (Recipient, error) {
	if to == "" {
		return Recipient{}, fail(ReasonMissing, "the request has no recipient")
	}
	switch channel {
	case schemas.ChannelSMS, schemas.ChannelVoice:
		return phone(to, defaultRegion)
	case schemas.ChannelEmail:
		return email(to)
	case schemas.ChannelPush:
		return push(to)
	case schemas.ChannelWebhook:
		return webhook(to)
	}
	return Recipient{}, fail(ReasonUnknownChannel, "channel %q is none of sms, voice, email, push, webhook", channel)
}

// email folds the whole address: the domain in lower case and ASCII (RFC 5890), the
// local part as fold has it. RFC 5321, section 2.4, leaves the letter case of a local
// part to the receiving host, and nearly every host ignores it. So the key ignores
// it, and Spelled keeps it for the delivery.
// Only a bare address is accepted: no display name, comment, quoted local part
// or address literal.
func email(to string) (Recipient, error) {
	to = strings.TrimSpace(to)
	if len(to) > 4*maxEmail {
		return Recipient{}, fail(ReasonEmail, "the address is longer than %d bytes", maxEmail)
	}
	a, err := mail.ParseAddress(to)
	if err != nil || a.Address != to {
		return Recipient{}, fail(ReasonEmail, "the recipient is not a bare e-mail address such as name@example.com")
	}
	at := strings.LastIndexByte(to, '@')
	local, domain := to[:at], to[at+1:]
	folded := fold(local)
	if max(len(local), len(folded)) > maxLocal { // a letter's lower case may be longer
		return Recipient{}, fail(ReasonEmail, "the part before @ is longer than %d bytes", maxLocal)
	}
	host, ok := hostname(domain)
	if !ok || !strings.Contains(host, ".") { // RFC 7085: no mail to dotless domains
		return Recipient{}, fail(ReasonEmail, "the part after @ is not a domain")
	}
	r := Recipient{Key: folded + "@" + host}
	if max(len(local), len(folded))+1+len(host) > maxEmail {
		return Recipient{}, fail(ReasonEmail, "the address is longer than %d bytes", maxEmail)
	}
	if local != folded {
		r.Spelled = local + "@" + host
	}
	return r, nil
}

// fold maps a local part as RFC 8265 maps user names without regard to case, but for
// width: each character in lower case, then NFC. It maps one character to one, in no language's
// own way, so ß and ss stay two mailboxes. fold of a folded text is that text.
func fold(local string) string {
	for i := range len(local) {
		if c := local[i]; c >= utf8.RuneSelf {
			return norm.NFC.String(strings.ToLower(norm.NFC.String(local)))
		}
	}
	return strings.ToLower(local)
}

// Fold returns the key of a mail address whose channel is not at hand, such as a
// key that a version without folding made. Any other text is returned as it is.
func Fold(key string) string {
	if strings.IndexByte(key, '@') <= 0 || strings.Contains(key, "://") {
		return key
	}
	r, err := email(key)
	if err != nil {
		return key
	}
	return r.Key
}

// push keeps a token or user name as it is: only its provider knows what is the
// same.
func push(to string) (Recipient, error) {
	switch {
	case len(to) > maxPush:
		return Recipient{}, fail(ReasonPush, "the token is longer than %d bytes", maxPush)
	case !utf8.ValidString(to):
		return Recipient{}, fail(ReasonPush, "the token is not UTF-8")
	case strings.TrimSpace(to) != to:
		return Recipient{}, fail(ReasonPush, "the token begins or ends with white space")
	case strings.ContainsFunc(to, unicode.IsControl):
		return Recipient{}, fail(ReasonPush, "the token has control characters")
	}
	return Recipient{Key: strings.Clone(to)}, nil
}

// webhook writes scheme and host in lower case and ASCII, leaves out the
// scheme's own port and the fragment (which is never sent), and gives an empty
// path its slash (RFC 3986, section 6.2.3). Path and query stay as they are.
func webhook(to string) (Recipient, error) {
	to = strings.TrimSpace(to)
	if len(to) > maxWebhook {
		return Recipient{}, fail(ReasonWebhook, "the URL is longer than %d bytes", maxWebhook)
	}
	u, err := url.Parse(to) // its error holds the URL
	if err != nil || u.Opaque != "" || strings.ContainsFunc(to, unicode.IsSpace) || !utf8.ValidString(to) {
		return Recipient{}, fail(ReasonWebhook, "the recipient is not a URL such as https://example.com/hook")
	}
	scheme := strings.ToLower(u.Scheme)
	if scheme != "http" && scheme != "https" {
		return Recipient{}, fail(ReasonWebhook, "the URL is neither http nor https")
	}
	if u.User != nil {
		return Recipient{}, fail(ReasonWebhook, "the URL has a user or password: they would be logged")
	}
	host := u.Hostname()
	if strings.Contains(host, ":") { // an IPv6 literal
		if strings.Contains(host, "%") {
			return Recipient{}, fail(ReasonWebhook, "the URL's address has a zone")
		}
		host = "[" + strings.ToLower(host) + "]"
	} else {
		var ok bool
		if host, ok = hostname(strings.TrimSuffix(host, ".")); !ok {
			return Recipient{}, fail(ReasonWebhook, "the URL has no host that can be looked up")
		}
	}
	if p := u.Port(); p != "" {
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 {
			return Recipient{}, fail(ReasonWebhook, "the URL's port is not 1 to 65535")
		}
		if !(scheme == "http" && n == 80 || scheme == "https" && n == 443) {
			host += ":" + strconv.Itoa(n)
		}
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	key := scheme + "://" + host + path
	if u.RawQuery != "" || u.ForceQuery {
		key += "?" + u.RawQuery
	}
	if len(key) > maxWebhook {
		return Recipient{}, fail(ReasonWebhook, "the URL is longer than %d bytes", maxWebhook)
	}
	return Recipient{Key: key}, nil
}

// hostname returns a name in lower case and ASCII, or false when it cannot be a
// host's. ASCII names are held to letters, digits, hyphens and underscores;
// IDNA's finer rules would refuse some that resolve.
func hostname(name string) (string, bool) {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			ascii, err := idna.Lookup.ToASCII(name)
			if err != nil {
				return "", false
			}
			name = ascii
			break
		}
	}
	name = strings.ToLower(name)
	if len(name) == 0 || len(name) > 253 {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", false
		}
		for i := range len(label) {
			c := label[i]
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "", false
			}
		}
	}
	return name, true
}
