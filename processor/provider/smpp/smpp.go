// Package smpp is the provider of type smpp: it speaks SMPP v3.4 with a message
// centre (SMSC) as a transceiver.
//
// One process holds one session a provider, bound in the background and bound anew
// when it breaks. A call is one message: one submit_sm, or one for each part of a
// text that is too long for one, in order. Receipts and what people write come over
// the same session and are answered when they have been handed on.
//
// It has no outbind, no query, cancel or replace, no submit_multi, data_sm or
// broadcasts, and sends no binary messages.
package smpp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Type is the provider's.
var Type = provider.Type{Open: Open, Check: func(in *provider.Settings) { readSettings(in) }, Codes: &codes}

type adapter struct {
	name     string
	deps     provider.Deps
	session  *session
	memory   *memory
	settings settings
}

type settings struct {
	sourceAddr           string
	source, dest         numbering // of numbers; source also of names when set
	alphabet             alphabet
	header               int
	parts                int
	registered           byte
	validity             string
	ids                  idForm
	zone                 *time.Location
	meanings             map[uint32]provider.Kind
	endpoint, serverName string
	dialer               net.Dialer
	tls                  *tls.Config
	bind                 bind
	window               int // submit_sm without an answer at most
	enquire, within      time.Duration
}

// numbering is a type of number and a numbering plan; -1 is chosen by the address.
type numbering struct{ ton, npi int }

// Open is the factory. It does not wait for the session. docs/provider-smpp.md has
// the settings.
func Open(p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	s := readSettings(in)
	if err := in.Err(); err != nil {
		return nil, err
	}
	a := adapterOf(p.Name, s, deps)
	a.session.start()
	return a, nil
}

// adapterOf is an adapter whose session is not begun.
func adapterOf(name string, s settings, deps provider.Deps) *adapter {
	a := &adapter{name: name, deps: deps, memory: newMemory(), settings: s}
	a.session = &session{
		dial: a.dial, bind: s.bind, within: s.within, window: s.window, enquire: s.enquire,
		deliver: a.deliver, refused: a.settings.refused, logger: deps.Logger.With("provider", name),
	}
	return a
}

func readSettings(in *provider.Settings) settings {
	s := settings{bind: bind{version: 0x34}, dialer: in.Dialer()}
	s.endpoint = in.Required("endpoint", "the centre's host:port")
	if host, port, err := net.SplitHostPort(s.endpoint); err != nil || host == "" || port == "" {
		in.Fail("endpoint", "must be host:port")
	} else {
		s.serverName = host
	}
	secure := in.Flag("tls", false)
	ca := in.Text("ca", "")
	for _, f := range []struct {
		name string
		into *string
		most int // octets, without the NUL (5.2.1 to 5.2.3)
	}{{"system_id", &s.bind.systemID, 15}, {"password", &s.bind.password, 8}, {"system_type", &s.bind.systemType, 12}, {"source_addr", &s.sourceAddr, 20}} {
		*f.into = in.Text(f.name, "")
		if len(*f.into) > f.most || strings.ContainsRune(*f.into, 0) {
			in.Fail(f.name, "may have %d octets in SMPP v3.4", f.most)
		}
	}
	if s.bind.systemID == "" {
		in.Fail("system_id", "is missing: write the name that the centre knows you by")
	}
	s.source = numbering{in.Int("source_ton", -1, 0, 6), in.Int("source_npi", -1, 0, 18)}
	s.dest = numbering{in.Int("dest_ton", 1, 0, 6), in.Int("dest_npi", 1, 0, 18)}
	s.alphabet = alphabet(in.OneOf("alphabet", string(alphabetGSM), string(alphabetLatin1)))
	s.header = header8
	if in.Flag("reference_16bit", false) {
		s.header = header16
	}
	s.parts = in.Int("max_parts", 16, 1, 255)
	s.registered = byte(in.Int("registered_delivery", 1, 0, 2))
	if d := in.Duration("validity_period", 0, time.Minute, 99*24*time.Hour); d > 0 {
		s.validity = relative(d)
	}
	s.ids = idForm(in.OneOf("receipt_ids", string(idsSame), string(idsDecimal), string(idsHex)))
	if name := in.Text("receipt_timezone", ""); name != "" {
		zone, err := schemas.Zone(name)
		if err != nil {
			in.Fail("receipt_timezone", "is no time zone, such as Asia/Shanghai")
		}
		s.zone = zone
	}
	s.meanings = meanings(in)
	s.window = in.Int("window", 10, 1, 1000)
	s.enquire = in.Duration("enquire_link", 30*time.Second, time.Second, 10*time.Minute)
	if secure {
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.serverName}
		if ca != "" {
			s.tls.RootCAs = x509.NewCertPool()
			if !s.tls.RootCAs.AppendCertsFromPEM([]byte(ca)) {
				in.Fail("ca", "holds no certificate in PEM")
			}
		}
	} else if ca != "" {
		in.Fail("ca", "is for tls: true")
	}
	if s.within = time.Duration(in.Provider.Timeout); s.within <= 0 {
		s.within = schemas.DefaultTimeout
	}
	return s
}

// meanings reads map: from a status to what it means here.
func meanings(in *provider.Settings) map[uint32]provider.Kind {
	all, ok := in.Any("map").(map[string]any)
	if in.Any("map") != nil && !ok {
		in.Fail("map", "must be a mapping from a command_status, such as 0x0000040A, to an outcome")
	}
	out := make(map[uint32]provider.Kind, len(all))
	for code, v := range all {
		status, err := strconv.ParseUint(code, 0, 32)
		for s, name := range statuses {
			if name == code {
				status, err = uint64(s), nil
			}
		}
		kind, _ := v.(string)
		switch provider.Kind(kind) {
		case provider.Throttled, provider.Transient, provider.Permanent, provider.Unknown:
		case provider.Accepted: // what was refused was not taken
			kind = ""
		default:
			kind = ""
		}
		if err != nil || status == 0 || kind == "" {
			in.Fail("map", "must be from a command_status, such as 0x0000040A, to throttled, transient, permanent or unknown")
		}
		out[uint32(status)] = provider.Kind(kind)
	}
	return out
}

// relative is a duration as a relative time (SMPP v3.4, 7.1.1.2): YYMMDDhhmmss000R.
func relative(d time.Duration) string {
	s := int(d / time.Second)
	return fmt.Sprintf("0000%02d%02d%02d%02d000R", s/86400, s/3600%24, s/60%60, s%60)
}

func (a *adapter) dial(ctx context.Context) (net.Conn, error) {
	conn, err := a.settings.dialer.DialContext(ctx, "tcp", a.settings.endpoint)
	if err != nil || a.settings.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, a.settings.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// Close unbinds.
func (a *adapter) Close() error {
	a.session.close()
	return nil
}

// Send sends one message, part after part. The first part that is not accepted
// ends it: what then comes of the call is what came of that part, and the recipient
// may have received a piece when it was not the first.
func (a *adapter) Send(ctx context.Context, c *provider.Call) provider.Outcome {
	bodies, refused := a.settings.compose(c)
	if bodies == nil {
		return refused
	}
	l, none := a.session.bound(ctx)
	if l == nil {
		return none
	}
	m := &message{reference: c.Reference(), parts: len(bodies)}
	first := ""
	for i, body := range bodies {
		p, o := l.submit(ctx, body, func(p pdu) { a.answered(m, p) })
		for p == nil && o == over && i == 0 && ctx.Err() == nil { // the session broke as the call came: nothing was written
			if l, none = a.session.bound(ctx); l == nil {
				return none
			}
			p, o = l.submit(ctx, body, func(p pdu) { a.answered(m, p) })
		}
		switch {
		case p == nil:
		case p.status != statusOK:
			o = a.settings.refused(p.status)
		case p.id != cmdSubmit|cmdResponse: // a nack of nothing
			o = provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "bad_answer", Text: "the answer cannot be read"}
		default:
			n, err := decodeNamed(p.body)
			if err != nil { // it was taken; only its name is lost
				n = named{}
			}
			if i == 0 && idLike(n.text) {
				first = a.settings.ids.answered(n.text)
			}
			continue
		}
		if i > 0 {
			o = partial(o, i, len(bodies))
		}
		return o
	}
	if r, ok := a.memory.sealed(m); ok {
		a.deps.Receipts(r)
	}
	return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: first}
}

// answered is called where answers are read, so that a receipt that follows finds
// its message.
func (a *adapter) answered(m *message, p pdu) {
	if p.status != statusOK || p.id != cmdSubmit|cmdResponse || a.settings.registered == 0 {
		return
	}
	if n, err := decodeNamed(p.body); err == nil && idLike(n.text) {
		a.memory.accepted(m, a.settings.ids.answered(n.text))
	}
}

// idLike keeps what goes into status events printable.
func idLike(s string) bool {
	return s != "" && len(s) <= maxID && strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) < 0
}

// partial is the outcome of a message of which some parts were accepted and one was
// not. A phone that has all parts but some shows nothing, or what it has; so it may
// have been received. Nothing of it says that the recipient is at fault for good.
func partial(o provider.Outcome, accepted, parts int) provider.Outcome {
	o.MayBeReceived = true
	o.Suppress = ""
	o.Text = fmt.Sprintf("after %d of %d parts were accepted: %s", accepted, parts, o.Text)
	return o
}

func (s *settings) refused(status uint32) provider.Outcome {
	o := codes.Outcome(codeOf(status))
	if kind, ok := s.meanings[status]; ok {
		o.Kind, o.MayBeReceived = kind, kind == provider.Unknown
		o.OfProvider = o.OfProvider && kind == provider.Throttled
	}
	return o
}

// compose makes the bodies of a message's submit_sm.
func (s *settings) compose(c *provider.Call) ([][]byte, provider.Outcome) {
	// The same at every attempt: a phone that has a part of an earlier one puts the
	// parts together instead of waiting for what never comes.
	h := fnv.New32a()
	h.Write([]byte(c.ID))
	sum := h.Sum32()
	parts, coding := split(c.Content.Body, s.alphabet, s.header, uint16(sum>>16)^uint16(sum))
	if len(parts) > s.parts {
		return nil, provider.Outcome{Kind: provider.Permanent, Code: "too_long", Text: fmt.Sprintf("the text takes %d short messages, and settings.max_parts is %d", len(parts), s.parts)}
	}
	from := c.From
	if from == "" {
		from = s.sourceAddr
	}
	source := s.sourceOf(from)
	if len(source.text) > 20 || strings.ContainsFunc(source.text, unicode.IsControl) {
		return nil, provider.Outcome{Kind: provider.Permanent, Code: "bad_sender", Text: "the sender is longer than 20 octets, or has control characters"}
	}
	body := short{
		source: source,
		dest:   address{byte(s.dest.ton), byte(s.dest.npi), strings.TrimPrefix(c.To, "+")},
		// UDHI says that the text begins with a header.
		validity: s.validity, registered: s.registered, dataCoding: coding,
	}
	if !digits(body.dest.text) || len(body.dest.text) > 20 {
		return nil, provider.Outcome{Kind: provider.Permanent, OfRecipient: true, Code: "bad_recipient", Text: "the recipient is no number of at most 20 digits"}
	}
	if len(parts) > 1 {
		body.esmClass = classUDH
	}
	all := make([][]byte, len(parts))
	for i, part := range parts {
		body.message = part
		all[i] = body.encode()
	}
	return all, provider.Outcome{}
}

// Types of number and numbering plans (SMPP v3.4, 5.2.5 and 5.2.6).
const (
	tonInternational = 1
	tonAlphanumeric  = 5
	npiISDN          = 1
)

// sourceOf is a sender with its type of number: a name, a number in international
// form, or another number.
func (s *settings) sourceOf(from string) address {
	a := address{text: from}
	if number, ok := strings.CutPrefix(from, "+"); ok && digits(number) {
		a = address{tonInternational, npiISDN, number}
	} else if from != "" && !digits(from) {
		a.ton = tonAlphanumeric
	}
	if s.source.ton >= 0 {
		a.ton = byte(s.source.ton)
	}
	if s.source.npi >= 0 {
		a.npi = byte(s.source.npi)
	}
	return a
}

func digits(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool { return c < '0' || c > '9' }) < 0
}

// deliver takes what the centre sends: a receipt, or what somebody wrote. The
// status is its answer, when it is safe.
func (a *adapter) deliver(s short) (status uint32, safe <-chan error) {
	kind := s.esmClass & classMask
	_, receipted := find(s.tlvs, tagReceiptedID)
	switch {
	case kind == classReceipt, kind == classMessage && receipted: // some centres do not say that it is one
		r, ok := receiptOf(s)
		if !ok {
			a.deps.Logger.Warn("smpp receipt cannot be read", "provider", a.name)
			return statusNotForUs, nil
		}
		return statusOK, a.receipt(r)
	case kind == classMessage:
		if in, ok := a.inbound(s); ok {
			if err := a.deps.Inbound(in); err != nil {
				return statusTemporary, nil
			}
		}
	}
	// The rest, such as notifications on the way and acknowledgements of phones, says
	// nothing that Weir keeps.
	return statusOK, nil
}

// receipt hands a receipt on; nil where there is nothing to hand on.
func (a *adapter) receipt(r receipt) (safe <-chan error) {
	row, ok := codes.OfReceipt(r.state)
	if !ok || row.Kind == "" {
		return nil
	}
	out := provider.Receipt{Provider: a.name, Channel: schemas.ChannelSMS, Status: schemas.StatusDelivered, At: schemas.MillisOf(r.at(a.settings.zone))}
	if out.At == 0 {
		out.At = schemas.MillisOf(time.Now())
	}
	if row.Kind != provider.Accepted {
		out.Status, out.Code, out.Text = schemas.StatusUndelivered, r.state, row.Means
		if r.fault != "" {
			out.Text += ", err " + r.fault
		}
	}
	if out, ok := a.memory.receipt(a.settings.ids.receipted(r.id), out); ok {
		return a.deps.Told(out)
	}
	return nil
}

// inbound reads what somebody wrote. Of a message in parts only the first is handed
// on: Weir looks for words such as STOP, and one at the start of a later part is none.
func (a *adapter) inbound(s short) (provider.Inbound, bool) {
	text := s.message
	if p, ok := find(s.tlvs, tagPayload); ok && len(text) == 0 {
		text = p
	}
	if s.esmClass&classUDH != 0 {
		n, rest := number(text)
		if n > 1 {
			return provider.Inbound{}, false
		}
		text = rest
	}
	return provider.Inbound{
		From: canonical(s.source), To: canonical(s.dest), Channel: schemas.ChannelSMS,
		Text: decode(text, s.dataCoding, a.settings.alphabet), At: time.Now(),
	}, true
}

// canonical is a number as Weir writes it: with a + where it is international. Many
// centres leave the type unknown; eleven digits and more without a leading zero are
// then taken for international.
func canonical(a address) string {
	if digits(a.text) && (a.ton == tonInternational || a.ton == 0 && len(a.text) >= 11 && a.text[0] != '0') {
		return "+" + a.text
	}
	return a.text
}
