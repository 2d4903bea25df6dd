// Package external reads what an operator's own services tell Weir: receipts and
// incoming messages, as JSON. It is all that there is of types external and none,
// which Weir does not call, and what type http listens with.
//
// It knows no provider's format: who has one translates it.
package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/bodysign"
	"github.com/weirhq/weir/processor/provider/hooksecret"
	"github.com/weirhq/weir/schemas"
)

// Type is that of external and none.
var Type = provider.Type{
	Listen: func(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
		return Listen(deps.Settings(p))
	},
	Check: Check,
}

// Most is how many receipts or messages one request may have.
const Most = 10_000

type listener struct {
	name    string
	channel schemas.Channel // where the provider has only one
	verify  func(*provider.Hook) error
}

// Listen opens what reads JSON; the type's other settings were asked for. Who calls is
// known by settings.receipt_secret or, without it, by the signature of settings.sign.
// Where there is neither the error is provider.ErrNoListener: nobody could be believed.
func Listen(in *provider.Settings) (provider.Listener, error) {
	scheme, secret := bodysign.Of(in), hooksecret.Given(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	l := &listener{name: in.Provider.Name, verify: secret.Verify}
	if len(in.Provider.Channels) == 1 {
		l.channel = in.Provider.Channels[0]
	}
	if in.Any(hooksecret.Setting) != nil {
		return l, nil
	}
	if !scheme.On() {
		return nil, fmt.Errorf("settings.%s is missing, and settings.sign: %w", hooksecret.Setting, provider.ErrNoListener)
	}
	l.verify = scheme.Verify
	return l, nil
}

// Check reads the settings that Listen reads.
func Check(in *provider.Settings) {
	bodysign.Of(in)
	hooksecret.Given(in)
}

// receipt is one as it comes. The message is named by id, by reference or by
// provider_message_id.
type receipt struct {
	ID                string                 `json:"id"`
	Reference         string                 `json:"reference"`
	ProviderMessageID string                 `json:"provider_message_id"`
	To                string                 `json:"to"`
	Status            schemas.Status         `json:"status"`
	At                time.Time              `json:"at"`
	Code              string                 `json:"error_code"`
	Text              string                 `json:"error"`
	Suppress          schemas.SuppressReason `json:"suppress"`
}

var reasons = []schemas.SuppressReason{schemas.SuppressHardBounce, schemas.SuppressComplaint, schemas.SuppressOptedOut, schemas.SuppressInvalid}

// Receipts reads a receipt or an array of them. One that cannot be read refuses all:
// whoever sent it is told which, and nothing is half taken.
func (l *listener) Receipts(h *provider.Hook) ([]provider.Receipt, provider.Reply, error) {
	in, err := read[receipt](l, h)
	if err != nil {
		return nil, provider.Reply{}, err
	}
	out := make([]provider.Receipt, 0, len(in))
	for i, r := range in {
		o, err := l.receipt(r, h.At)
		if err != nil {
			return nil, provider.Reply{}, &provider.Unreadable{Reason: fmt.Sprintf("receipt %d: %v", i, err)}
		}
		out = append(out, o)
	}
	return out, provider.Reply{}, nil
}

const (
	maxID   = 256 // bytes
	maxCode = 64
	maxText = 300
)

func (l *listener) receipt(r receipt, came time.Time) (provider.Receipt, error) {
	o := provider.Receipt{Provider: l.name, MessageID: r.ID, To: r.To, Channel: l.channel}
	if r.Reference != "" {
		ref, err := provider.ParseReference(r.Reference)
		if err != nil {
			return o, errors.New("reference is none that Weir gave")
		}
		o = ref.Receipt(l.name)
	}
	o.ProviderMessageID, o.Status, o.Code, o.Text, o.Suppress = r.ProviderMessageID, r.Status, r.Code, r.Text, r.Suppress
	if o.At = schemas.MillisOf(r.At); r.At.IsZero() {
		o.At = schemas.MillisOf(came)
	}
	switch {
	case o.MessageID == "" && o.ProviderMessageID == "":
		return o, errors.New("it names no message: it needs id, reference or provider_message_id")
	case len(o.MessageID) > maxID || len(o.ProviderMessageID) > maxID || !printable(o.MessageID+o.ProviderMessageID):
		return o, errors.New("an id is over 256 bytes or not printable")
	case o.Status != schemas.StatusDelivered && o.Status != schemas.StatusUndelivered && (o.Status != "" || o.Suppress == ""):
		return o, errors.New("status is delivered or undelivered; it may be absent where suppress is there")
	case o.Suppress != "" && !slices.Contains(reasons, o.Suppress):
		return o, errors.New("suppress is hard_bounce, complaint, opted_out or invalid")
	case len(o.Code) > maxCode || !printable(o.Code) || strings.Contains(o.Code, " "):
		return o, errors.New("error_code is over 64 bytes or not one printable word")
	case len(o.Text) > maxText || !printable(o.Text):
		return o, errors.New("error is over 300 bytes or not printable")
	}
	if o.To != "" && strings.Contains(o.Code+o.Text, strings.TrimPrefix(o.To, "+")) { // those stand in status events
		return o, errors.New("error and error_code must not hold the recipient")
	}
	return o, nil
}

// inbound is a message as it comes.
type inbound struct {
	ID      string          `json:"id"`
	From    string          `json:"from"`
	To      string          `json:"to"`
	Channel schemas.Channel `json:"channel"`
	Text    string          `json:"text"`
	At      time.Time       `json:"at"`
	Tenant  string          `json:"tenant"`
	Class   string          `json:"class"`
	Word    string          `json:"word"`
}

// Inbound reads a message or an array of them.
func (l *listener) Inbound(h *provider.Hook) ([]provider.Inbound, provider.Reply, error) {
	in, err := read[inbound](l, h)
	if err != nil {
		return nil, provider.Reply{}, err
	}
	out := make([]provider.Inbound, 0, len(in))
	for i, m := range in {
		o := provider.Inbound(m)
		if o.Channel == "" {
			o.Channel = l.channel
		}
		if o.At.IsZero() {
			o.At = h.At
		}
		switch {
		case o.From == "":
			err = errors.New("from is missing")
		case !slices.Contains(schemas.Channels, o.Channel):
			err = errors.New("channel is sms, voice, email, push or webhook")
		case !slices.Contains([]string{"", "stop", "start", "help"}, o.Word):
			err = errors.New("word is stop, start or help")
		}
		if err != nil {
			return nil, provider.Reply{}, &provider.Unreadable{Reason: fmt.Sprintf("message %d: %v", i, err)}
		}
		out = append(out, o)
	}
	return out, provider.Reply{}, nil
}

// read verifies a request and reads one of T, or an array of them.
func read[T any](l *listener, h *provider.Hook) ([]T, error) {
	if err := l.verify(h); err != nil {
		return nil, err
	}
	var all []T
	into := any(&all)
	body := bytes.TrimSpace(h.Body)
	if !bytes.HasPrefix(body, []byte("[")) {
		all = make([]T, 1)
		into = &all[0]
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.Decode(new(any)) != io.EOF {
		err = errors.New("more follows")
	}
	if err != nil {
		return nil, &provider.Unreadable{Reason: "it is no JSON of this form: " + reason(err)}
	}
	if len(all) > Most {
		return nil, &provider.Unreadable{Reason: fmt.Sprintf("it has %d entries, and at most %d are taken", len(all), Most)}
	}
	return all, nil
}

// reason is what of a decoder's error holds nothing that was sent.
func reason(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "the type of " + e.Field
	}
	if strings.HasPrefix(err.Error(), "json: unknown field ") {
		return "a field that it does not have"
	}
	return "the syntax"
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) })
}
