package providertest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

// Run is the contract: each case is a subtest, with a server and a provider of its
// own. It must not run beside other tests of its package: it watches the log
// package, stdout and stderr.
func Run(t *testing.T, a Adapter) {
	t.Helper()
	n := contract(real{t}, a)
	if t.Failed() {
		return
	}
	t.Logf("%s: %d cases passed, %d not applicable", a.Name, n.passed, n.not)
	keep(t, a, n)
}

// Check is the contract without what Run keeps in the docs: for another way to set
// the same adapter up.
func Check(t *testing.T, a Adapter) {
	t.Helper()
	contract(real{t}, a)
}

// tb is what of *testing.T the contract uses, so that a test of the contract can
// see it fail.
type tb interface {
	T
	Context() context.Context
	Errorf(format string, args ...any)
	Failed() bool
	Run(name string, fn func(tb)) bool
}

type real struct{ *testing.T }

func (r real) Run(name string, fn func(tb)) bool {
	return r.T.Run(name, func(t *testing.T) { fn(real{t}) })
}

// count is how many cases passed, and how many an adapter's Lacks leave out.
type count struct{ passed, not int }

// check is one case.
type check struct {
	name  string
	needs Lack // without it the case does not apply
	run   func(*env)
}

func contract(t tb, a Adapter) count {
	t.Helper()
	if problem := a.unusable(); problem != "" {
		t.Fatalf("the adapter is not described: %s", problem)
	}
	var n count
	for _, c := range a.checks() {
		if c.needs != "" && slices.Contains(a.Lacks, c.needs) {
			n.not++
			continue
		}
		if t.Run(c.name, func(t tb) { a.try(t, c.run) }) {
			n.passed++
		}
	}
	return n
}

func (a *Adapter) unusable() string {
	switch {
	case a.Name == "" || len(a.Channels) == 0 || a.Settings == nil || a.Start == nil || a.Type.Open == nil || a.Type.Check == nil:
		return "Name, Channels, Settings, Start, Type.Open and Type.Check are needed"
	case a.Receipts == "" || a.Idempotency == "":
		return "say in Receipts and Idempotency how the provider does them"
	case a.lacks(LacksCodes) != (a.Type.Codes == nil || a.UnknownCode == ""):
		return "it has Type.Codes and an UnknownCode, or LacksCodes"
	}
	for _, c := range a.Channels {
		if a.To[c] == "" {
			return "To has no recipient of channel " + string(c)
		}
	}
	if a.Type.Codes != nil {
		if len(a.Type.Codes.Sources) == 0 {
			return "Type.Codes has no source"
		}
		if _, ok := a.Type.Codes.Of(a.UnknownCode); ok && a.UnknownCode != "" {
			return "UnknownCode is in Type.Codes"
		}
		for _, row := range a.Type.Codes.Send {
			if _, ok := a.sample(row); !ok {
				return "no code reaches the row " + row.Code
			}
		}
	}
	return ""
}

func (a *Adapter) lacks(l Lack) bool { return slices.Contains(a.Lacks, l) }

// sample is a code of a row's.
func (a *Adapter) sample(row provider.Code) (string, bool) {
	prefix, any := strings.CutSuffix(row.Code, "*")
	if !any {
		return row.Code, true
	}
	for _, end := range []string{"00", "0", "9", "7", "97", "11", "X9", ""} {
		code := prefix + end
		if got, ok := a.Type.Codes.Of(code); ok && got.Code == row.Code {
			return code, true
		}
	}
	return "", false
}

// env is a case under way.
type env struct {
	tb
	a        *Adapter
	server   Server
	provider provider.Provider
	deps     provider.Deps
	watch    *watch
}

// try runs one case and looks afterwards at what was logged.
func (a *Adapter) try(t tb, fn func(*env)) {
	t.Helper()
	e := &env{tb: t, a: a, server: a.Start(t)}
	e.watch = watching(t)
	e.deps = e.watch.deps(a)
	for _, v := range a.Env {
		e.watch.forbid("a secret", v)
		for line := range strings.Lines(v) { // of a key in PEM
			if len(line) > 24 {
				e.watch.forbid("a secret", strings.TrimSpace(line))
			}
		}
	}
	p, err := e.open(a.Settings(e.server.Endpoint()), e.deps)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	e.provider = p
	closed := false
	shut := func() {
		if !closed {
			closed = true
			if err := p.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	}
	t.Cleanup(shut)
	fn(e)
	shut()
	if said, what := e.watch.leak(); what != "" {
		t.Errorf("%s was logged or printed:\n%s", what, said)
	}
	if t.Failed() {
		t.Logf("on the wire:\n%s", e.server.Wire())
	}
}

// open opens the adapter as a policy would.
func (e *env) open(settings map[string]any, deps provider.Deps) (provider.Provider, error) {
	p, err := provider.Types{e.a.Name: e.a.Type}.Open(e.policy(settings), deps)
	if err != nil {
		if what := e.watch.inText(err.Error()); what != "" {
			e.Errorf("the error of Open tells %s: %v", what, err)
		}
	}
	return p, err
}

func (e *env) policy(settings map[string]any) schemas.Provider {
	return schemas.Provider{Name: "theirs", Type: e.a.Name, Channels: e.a.Channels, Timeout: schemas.Duration(ample), Settings: settings}
}

const (
	ample = time.Minute // the deadline of calls that are answered
	short = time.Second // of calls that are not
	// late is how much later than its deadline a call may return: what a loaded
	// machine needs, and less than any second try would take.
	late = 3 * time.Second
)

// tries is how often a call may be late, before it is the adapter that is: a machine
// that stands still for some seconds does so in one of them. And patience is how long
// what must come by itself is waited for. A test of the contract, which is to fail, waits less.
var (
	tries    = 3
	patience = 2 * time.Minute
)

// marker stands in everything that is not to be logged.
const marker = "zq402931"

// call is a call as they come, on a channel.
func (e *env) call(channel schemas.Channel, text string) provider.Call {
	c := provider.Call{
		ID: "0199b2a0-5c00-7000-8000-0123456789ab", Attempt: 1, To: e.a.To[channel], Channel: channel,
		Tenant: "acme", Class: "verify", Template: "login-code",
		Vars:     map[string]string{"code": text, "name": "Zoë " + marker},
		Metadata: map[string]string{"order": "17"},
		Content:  content.Content{Body: text},
		Own:      e.a.Own,
	}
	if !e.a.lacks(LacksFrom) {
		c.From = senders[channel]
		if f := e.a.From[channel]; f != "" {
			c.From = f
		}
	}
	switch channel {
	case schemas.ChannelEmail:
		c.Content.Subject = oneLine.Replace(text)
		if !e.a.lacks(LacksHTML) {
			c.Content.HTML = "<p>" + escape.Replace(text) + "</p>"
		}
		if !e.a.lacks(LacksReplyTo) {
			c.ReplyTo = "support@weir.example"
		}
	case schemas.ChannelPush:
		if !e.a.lacks(LacksTitle) {
			c.Content.Title = oneLine.Replace(text)
		}
		if !e.a.lacks(LacksData) {
			c.Data = map[string]string{"order": "17", "note": text}
		}
	case schemas.ChannelWebhook:
		c.Data = map[string]string{"order": "17", "note": text}
	case schemas.ChannelSMS, schemas.ChannelVoice:
	}
	return c
}

var (
	oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ")
	escape  = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	senders = map[schemas.Channel]string{schemas.ChannelSMS: "Weir", schemas.ChannelVoice: "+15005550006", schemas.ChannelEmail: "no-reply@weir.example"}
)

// send makes a call and judges what holds for every outcome.
func (e *env) send(c provider.Call, deadline time.Duration) provider.Outcome {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.Context(), deadline)
	defer cancel()
	return e.sendIn(ctx, c)
}

func (e *env) sendIn(ctx context.Context, c provider.Call) provider.Outcome {
	e.Helper()
	e.forbid(&c)
	o := e.provider.Send(ctx, &c)
	for _, problem := range e.problems(o) {
		e.Errorf("%s: %+v", problem, o)
	}
	return o
}

// inTime makes a call that nobody answers, and requires one attempt of unknown outcome
// that ends when it must; call says by how much later it ended.
func (e *env) inTime(call func() (o provider.Outcome, over time.Duration)) {
	e.Helper()
	for try := 1; ; try++ {
		e.server.Do(Behaviour{})
		e.eventually("the server does not take a call", func() bool { // so that what comes before calls is done
			return e.send(e.call(e.a.Channels[0], plain), ample).Kind == provider.Accepted
		})
		e.server.Do(Behaviour{Hang: true})
		before := e.server.Calls()
		o, over := call()
		if try < tries && (over > late || o.Kind != provider.Unknown) {
			e.Logf("try %d: %s late, %+v", try, over.Round(time.Millisecond), o)
			continue
		}
		e.is(o, provider.Unknown, true)
		if over > late {
			e.Errorf("it returned %s after it had to", over.Round(time.Millisecond))
		}
		e.calls(before + 1)
		return
	}
}

// forbid keeps a call out of everything that is said.
func (e *env) forbid(c *provider.Call) {
	e.watch.forbid("a recipient", c.To)
	e.watch.forbid("a recipient", strings.TrimPrefix(c.To, "+"))
	for _, s := range []string{marker, c.Content.Body, c.Content.Subject, c.Content.Title, c.Content.HTML, c.Vars["code"]} {
		e.watch.forbid("a message's text", s)
	}
}

func (e *env) problems(o provider.Outcome) []string {
	var out []string
	say := func(bad bool, what string) {
		if bad {
			out = append(out, what)
		}
	}
	failed := o.Kind != provider.Accepted
	say(!slices.Contains(provider.Kinds, o.Kind), "an outcome of no kind")
	say(o.Kind == provider.Unknown && !o.MayBeReceived, "unknown, and surely not received")
	say(!failed && (o.MayBeReceived || o.OfRecipient || o.OfProvider || o.Suppress != "" || o.RetryAfter != 0), "accepted, and a failure's fields")
	say(o.Suppress != "" && (o.Kind != provider.Permanent || !o.OfRecipient), "a recipient is suppressed without a permanent failure of its own")
	say(o.OfProvider && (o.Kind != provider.Throttled || o.OfRecipient), "of the provider, and not a throttled call, or of the recipient too")
	say(o.RetryAfter < 0, "a time to wait below 0")
	say(failed && (o.Code == "" || len(o.Code) > 64 || !printable(o.Code)), "a failure needs a code of 1 to 64 printable characters")
	say(failed && o.Text == "", "a failure needs a text")
	say(len(o.Text) > 300 || !printable(strings.ReplaceAll(o.Text, " ", "_")), "a text over 300 bytes or not printable")
	say(len(o.ProviderMessageID) > 256, "a provider's id over 256 bytes")
	for _, s := range []string{o.Code, o.Text, o.ProviderMessageID} {
		if what := e.watch.inText(s); what != "" {
			out = append(out, "the outcome tells "+what)
		}
	}
	return out
}

// took is the one message that the server took.
func (e *env) took() Message {
	e.Helper()
	got := e.server.Received()
	if len(got) != 1 {
		e.Fatalf("the server took %d messages, want 1", len(got))
	}
	return got[0]
}

// calls is how many calls must have arrived since the start.
func (e *env) calls(want int) {
	e.Helper()
	if got := e.server.Calls(); got != want {
		e.Errorf("%d calls arrived, want %d: an adapter makes one attempt a call", got, want)
	}
}

// accepted makes a call that the server takes.
func (e *env) accepted(c provider.Call) (provider.Outcome, Message) {
	e.Helper()
	o := e.send(c, ample)
	if o.Kind != provider.Accepted {
		e.Fatalf("want accepted: %+v", o)
	}
	return o, e.took()
}

// same compares what arrived with the call.
func (e *env) same(c *provider.Call, m Message) {
	e.Helper()
	if m.To != c.To {
		e.Errorf("to: %q, want %q", m.To, c.To)
	}
	if !e.a.lacks(LacksFrom) && c.From != "" && m.From != c.From {
		e.Errorf("from: %q, want %q", m.From, c.From)
	}
	if e.a.lacks(LacksBody) {
		got := slices.Collect(maps.Values(m.Params))
		if m.Template == "" {
			e.Errorf("no template of the provider's arrived")
		}
		for name, v := range c.Vars {
			if !slices.Contains(got, v) {
				e.Errorf("variable %s: %q did not arrive among %q", name, v, got)
			}
		}
		return
	}
	body, want := m.Body, c.Content.Body
	if c.Channel == schemas.ChannelEmail { // lines of e-mail end in CR LF, and the last one does
		trim := func(s string) string { return strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n") }
		body, want, m.HTML = trim(body), trim(want), trim(m.HTML)
	}
	for _, f := range []struct{ name, got, want string }{
		{"body", body, want}, {"subject", m.Subject, c.Content.Subject}, {"html", m.HTML, strings.TrimRight(c.Content.HTML, "\n")},
		{"title", m.Title, c.Content.Title}, {"reply-to", m.ReplyTo, c.ReplyTo},
	} {
		if f.got != f.want {
			e.Errorf("%s:\n got %q\nwant %q", f.name, f.got, f.want)
		}
	}
	for k, v := range c.Data {
		if m.Data[k] != v {
			e.Errorf("data %s: %q, want %q", k, m.Data[k], v)
		}
	}
}

// is compares an outcome with a kind.
func (e *env) is(o provider.Outcome, kind provider.Kind, received bool) {
	e.Helper()
	if o.Kind != kind || o.MayBeReceived != received {
		e.Errorf("%+v; want %s, received perhaps: %v", o, kind, received)
	}
}

// eventually waits for what another goroutine does.
func (e *env) eventually(what string, ok func() bool) {
	e.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			e.Fatalf("%s", what)
		}
	}
}

func printable(s string) bool {
	for _, r := range s {
		if r <= ' ' || r == 0x7f || r == 0xfffd {
			return false
		}
	}
	return true
}
