package smtp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"net/textproto"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/processor/provider/letter"
	"github.com/weirhq/weir/schemas"
)

// Listen opens what reads bounces and complaints that the operator's mail server
// posts, as it gets them: a delivery status notification (RFC 3464) or a feedback
// report (RFC 5965), whole or only its message/delivery-status part. SMTP has no
// receipts of its own: these come as mail to the return path.
func Listen(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
	in := deps.Settings(p)
	in.Others(settings...)
	l := &listener{name: p.Name, secret: hooksecret.Given(in), links: letter.ReadLinks(in, deps.PublicURL)}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if p.Settings[hooksecret.Setting] == nil && l.links == nil {
		return nil, fmt.Errorf("%w (settings.receipt_secret lets a mail server post bounces)", provider.ErrNoListener)
	}
	return l, nil
}

type listener struct {
	name   string
	secret hooksecret.Secret // none: every post is forged
	links  *letter.Links
}

// Inbound reads clicks on "unsubscribe".
func (l *listener) Inbound(h *provider.Hook) ([]provider.Inbound, provider.Reply, error) {
	return l.links.Inbound(h)
}

// Receipts reads one posted notification.
func (l *listener) Receipts(h *provider.Hook) ([]provider.Receipt, provider.Reply, error) {
	err := l.secret.Verify(h)
	if err != nil {
		return nil, provider.Reply{}, err
	}
	n := &notification{}
	kind, _, _ := mime.ParseMediaType(h.Header.Get("Content-Type"))
	if kind == "message/delivery-status" {
		err = n.status(h.Body)
	} else {
		err = n.mail(h.Body)
	}
	if err != nil {
		return nil, provider.Reply{}, fmt.Errorf("%w: %v", provider.ErrHook, err)
	}
	return n.receipts(l.name, h.At), provider.Reply{}, nil
}

// notification is what a bounce or complaint says.
type notification struct {
	envelope  string // Original-Envelope-Id
	at        time.Time
	of        []recipientFields
	feedback  string // Feedback-Type of a complaint
	to        string // whom a complaint is about
	messageID string // of the letter that came back
}

type recipientFields struct {
	address, action, status string
}

var errNotOne = errors.New("this is neither a delivery status notification nor a feedback report")

const maxParts = 10

func (n *notification) mail(body []byte) error {
	m, err := netmail.ReadMessage(bytes.NewReader(body))
	if err != nil {
		return errors.New("this is no e-mail")
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/report" {
		return errNotOne
	}
	if at, err := m.Header.Date(); err == nil {
		n.at = at
	}
	found := false
	parts := multipart.NewReader(m.Body, params["boundary"])
	for range maxParts {
		p, err := parts.NextPart()
		if err != nil {
			break
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return errors.New("a part of it is broken")
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		switch kind {
		case "message/delivery-status", "message/global-delivery-status":
			if err := n.status(content); err != nil {
				return err
			}
			found = true
		case "message/feedback-report":
			f := fields(bufio.NewReader(bytes.NewReader(content)))
			if n.feedback = strings.ToLower(strings.TrimSpace(f.Get("Feedback-Type"))); n.feedback == "" {
				return errNotOne
			}
			n.to = address(f.Get("Original-Rcpt-To"))
			n.envelope = f.Get("Original-Envelope-Id")
			found = true
		case "message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers":
			f := fields(bufio.NewReader(bytes.NewReader(content)))
			n.messageID = strings.Trim(strings.TrimSpace(f.Get("Message-Id")), "<>")
			if n.to == "" {
				n.to = address(f.Get("To"))
			}
		}
	}
	if !found {
		return errNotOne
	}
	return nil
}

// status reads a message/delivery-status: fields of the message, and then of each
// recipient, with an empty line between.
func (n *notification) status(content []byte) error {
	r := bufio.NewReader(bytes.NewReader(content))
	about := fields(r)
	n.envelope = strings.TrimSpace(about.Get("Original-Envelope-Id"))
	for {
		f := fields(r)
		if len(f) == 0 {
			if _, err := r.Peek(1); err != nil {
				break
			}
			continue
		}
		who := f.Get("Original-Recipient")
		if who == "" {
			who = f.Get("Final-Recipient")
		}
		_, addr, _ := strings.Cut(who, ";")
		n.of = append(n.of, recipientFields{
			address: strings.TrimSpace(addr), action: strings.ToLower(strings.TrimSpace(f.Get("Action"))),
			status: first(f.Get("Status")),
		})
		if at, err := netmail.ParseDate(f.Get("Last-Attempt-Date")); err == nil {
			n.at = at
		}
		if len(n.of) > maxParts {
			break
		}
	}
	if len(n.of) == 0 {
		return errNotOne
	}
	return nil
}

// fields reads header fields up to an empty line.
func fields(r *bufio.Reader) textproto.MIMEHeader {
	h, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil && h == nil {
		return textproto.MIMEHeader{}
	}
	return h
}

func first(s string) string {
	f := strings.Fields(s)
	if len(f) == 0 || !enhanced.MatchString(f[0]) {
		return ""
	}
	return f[0]
}

// receipts are what a notification tells about messages of Weir's: one a recipient.
func (n *notification) receipts(name string, came time.Time) (out []provider.Receipt) {
	begin := func(to string) (provider.Receipt, bool) {
		r := provider.Receipt{Provider: name, Channel: schemas.ChannelEmail}
		ref, err := provider.ParseReference(unxtext(n.envelope))
		switch {
		case err == nil && ref.Tenant == "":
			return r, false // a letter of Weir's own, such as an alert
		case err == nil:
			r = ref.Receipt(name)
			if r.To == "" {
				r.To = to
			}
		case n.messageID != "":
			r.ProviderMessageID = n.messageID
		default:
			return r, false // nobody's
		}
		r.At = schemas.MillisOf(came)
		if !n.at.IsZero() && n.at.Before(came) {
			r.At = schemas.MillisOf(n.at)
		}
		return r, true
	}
	// mark takes from the table what a code means.
	mark := func(r *provider.Receipt, code string) {
		row, ok := codes.OfReceipt(code)
		if !ok {
			return
		}
		r.Text, r.Suppress = row.Means, row.Suppress
	}
	if n.feedback != "" {
		r, ok := begin(n.to)
		if !ok {
			return nil
		}
		r.Code = n.feedback
		mark(&r, n.feedback)
		if r.Suppress == "" {
			return nil // not-spam, virus, other: nothing that a message's state tells
		}
		return []provider.Receipt{r}
	}
	for _, f := range n.of {
		r, ok := begin(address(unxtext(f.address)))
		if !ok {
			continue
		}
		switch f.action {
		case "failed":
			r.Status = schemas.StatusUndelivered
		case "delivered":
			r.Status = schemas.StatusDelivered
		default:
			continue // delayed, relayed, expanded: still on its way
		}
		if r.Code = f.status; r.Code != "" {
			mark(&r, r.Code)
		}
		if r.Status == schemas.StatusDelivered {
			r.Code, r.Text, r.Suppress = "", "", ""
		}
		out = append(out, r)
	}
	return out
}
