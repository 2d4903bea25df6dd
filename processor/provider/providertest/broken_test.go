package providertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/provider/httpcall"
	"github.com/weirhq/weir/schemas"
)

// recorder is a test that may fail without failing the one that looks at it.
type recorder struct {
	ctx      context.Context
	only     string // the case to run; empty for all
	ran      int
	failed   bool
	said     []string
	cleanups []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Failed() bool             { return r.failed }
func (r *recorder) Cleanup(fn func())        { r.cleanups = append(r.cleanups, fn) }
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failed = true
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatal(args ...any) { r.Errorf("%s", fmt.Sprint(args...)); runtime.Goexit() }

func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }

func (r *recorder) Run(name string, fn func(tb)) bool {
	if r.only != "" && r.only != name {
		return true
	}
	r.ran++
	sub := &recorder{ctx: r.ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(sub.cleanups) - 1; i >= 0; i-- {
				sub.cleanups[i]()
			}
		}()
		fn(sub)
	}()
	<-done
	if sub.failed {
		r.failed = true
		for _, s := range sub.said {
			r.said = append(r.said, name+": "+s)
		}
	}
	return !sub.failed
}

// fault is what is wrong with an adapter.
type fault string

var none fault // no constant: the switches would have to name it

// faults are an adapter's, each with the case that must notice it.
var faults = []struct {
	fault fault
	by    string
}{
	{"says a secret in the outcome", "code 21"},
	{"repeats the provider's text", "code 21"},
	{"logs the recipient", "success on email"},
	{"prints the text", "success on email"},
	{"logs with the log package", "wrong credentials"},
	{"tries again by itself", "throttled, without a time"},
	{"tries again by itself", "the connection breaks after the call was read"},
	{"says accepted on garbage", "garbage for an answer"},
	{"drops emoji", "email: emoji"},
	{"cuts long text", "email: 10 segments of GSM 03.38"},
	{"escapes the text", "email: quotes and markup"},
	{"maps a code wrongly", "code 21"},
	{"does not suppress", "code 22*"},
	{"takes unknown codes for success", "an unknown code"},
	{"ignores the deadline", "no answer within the deadline"},
	{"ignores the deadline", "a context that is cancelled during the call"},
	{"calls although the context is over", "a context that is over"},
	{"a new key at each attempt", "the same call twice has one key"},
	{"one key for all", "the same call twice has one key"},
	{"no reference", "the reference travels"},
	{"no id", "the provider's id comes back"},
	{"forgets how long to wait", "throttled, with a time"},
	{"makes up how long to wait", "throttled, without a time"},
	{"writes what it is given into headers", "email: CR LF in subject adds no header"},
	{"loses what follows a line's end", "email: CR LF in subject adds no header"},
	{"says a closed port may have it", "a closed port"},
	{"gives up for good where the port is closed", "a closed port"},
	{"wrong credentials are permanent", "wrong credentials"},
	{"wrong credentials are the recipient's", "wrong credentials"},
	{"mixes calls up", "50 calls at once"},
	{"goes on after Close", "Close leaves nothing running"},
	{"knows every setting", "an unknown setting is refused"},
	{"does without a setting", "a missing setting is refused by name"},
	{"tells a secret at Open", "an unknown setting is refused"},
	{"does without a secret", "a secret that the environment lacks is refused by name"},
	{"believes everybody", "requests that are not the provider's are forged"},
	{"loses html", "success on email"},
	{"a new line in the code", "code 21"},
	{"Check passes what Open refuses", "Check refuses what Open refuses, and nothing else"},
	{"Check does not know that Listen refuses", "Check refuses what Open refuses, and nothing else"},
	{"Check judges what a variable holds", "Check refuses what Open refuses, and nothing else"},
	{"Check does without a setting", "Check refuses what Open refuses, and nothing else"},
	{"Check knows every setting", "an unknown setting is refused"},
	{"Check opens", "Check opens nothing"},
}

// TestFaultsAreFound: an adapter without a fault passes; with any, the case that is
// for it fails.
func TestFaultsAreFound(t *testing.T) {
	good := &recorder{ctx: t.Context()}
	n := contract(good, adapter(none))
	if good.failed || n.passed < 39 || n.passed != good.ran {
		t.Fatalf("an adapter without a fault: %+v of %d, %s", n, good.ran, strings.Join(good.said, "\n"))
	}
	for _, tt := range faults {
		t.Run(string(tt.fault)+", "+tt.by, func(t *testing.T) {
			r := &recorder{ctx: t.Context(), only: tt.by}
			defer func(n int, d time.Duration) { tries, patience = n, d }(tries, patience)
			tries, patience = 1, 5*time.Second
			contract(r, adapter(tt.fault))
			if r.ran != 1 {
				t.Fatalf("%d cases of that name", r.ran)
			}
			if !r.failed {
				t.Error("it passed")
			}
			t.Logf("%s", strings.Join(r.said, "\n"))
		})
	}
}

// TestNotApplicableIsNotPassed: what a protocol lacks is counted apart.
func TestNotApplicableIsNotPassed(t *testing.T) {
	all := contract(&recorder{ctx: t.Context(), only: "nothing"}, adapter(none))
	a := adapter(none)
	a.Lacks = []Lack{LacksReference, LacksIdempotency, LacksRetryAfter, LacksMessageID}
	less := contract(&recorder{ctx: t.Context(), only: "nothing"}, a)
	if all.not != 0 || less.not != 4 || less.passed != all.passed-4 {
		t.Errorf("%+v, with four lacks %+v", all, less)
	}
}

// TestAnAdapterMustBeDescribed: what would make cases pass for nothing is refused.
func TestAnAdapterMustBeDescribed(t *testing.T) {
	for name, spoil := range map[string]func(*Adapter){
		"no Check":              func(a *Adapter) { a.Type.Check = nil },
		"no recipient":          func(a *Adapter) { a.To = nil },
		"no source":             func(a *Adapter) { a.Type.Codes = &provider.Codes{Send: fakeCodes.Send} },
		"an unknown code known": func(a *Adapter) { a.UnknownCode = "21" },
		"no unknown code":       func(a *Adapter) { a.UnknownCode = "" },
		"codes and none":        func(a *Adapter) { a.Lacks = []Lack{LacksCodes} },
		"a row that nothing reaches": func(a *Adapter) {
			c := fakeCodes
			c.Send = append([]provider.Code{{Code: "22*"}}, c.Send...)
			c.Send[2].Code = "220*"
			for _, end := range []string{"", "0", "00", "9", "7", "97", "11", "X9"} {
				c.Send = append(c.Send, provider.Code{Code: "22" + end})
			}
			a.Type.Codes = &c
		},
		"nothing on receipts": func(a *Adapter) { a.Receipts = "" },
	} {
		t.Run(name, func(t *testing.T) {
			a := adapter(none)
			spoil(&a)
			if a.unusable() == "" {
				t.Error("it is taken")
			}
		})
	}
}

var fakeCodes = provider.Codes{
	Sources: []provider.Source{{Title: "this test", URL: "https://weir.example/"}},
	Send: []provider.Code{
		{Code: "21", Kind: provider.Permanent, Means: "no"},
		{Code: "22*", Kind: provider.Permanent, Suppress: schemas.SuppressOptedOut, Means: "the recipient wants nothing"},
		{Code: "30", Kind: provider.Transient, Means: "later"},
	},
	Else: provider.Code{Kind: provider.Permanent, Means: "refused"},
}

const fakeSecret = "hunter2-of-the-fake"

func adapter(f fault) Adapter {
	return Adapter{
		Name: "fake", Type: provider.Type{Open: func(p schemas.Provider, deps provider.Deps) (provider.Provider, error) { return openFake(f, p, deps) }, Codes: &fakeCodes,
			Listen: func(p schemas.Provider, deps provider.Deps) (provider.Listener, error) {
				in := deps.Settings(p)
				fakeSettings(f, in)
				fakeReceipts(in)
				if err := fakeErr(f, in); err != nil {
					return nil, err
				}
				return fakeListener(f), nil
			},
			Check: func(in *provider.Settings) { fakeCheck(f, in) }},
		Channels: []schemas.Channel{schemas.ChannelEmail}, To: map[schemas.Channel]string{schemas.ChannelEmail: "zoe@customer.example"},
		Settings: func(endpoint string) map[string]any {
			return map[string]any{"endpoint": endpoint, "key": "${FAKE_KEY}"}
		},
		Env:         map[string]string{"FAKE_KEY": fakeSecret},
		UnknownCode: "99", Receipts: "none", Idempotency: "a header",
		Start: fakeServer,
	}
}

func fakeServer(t T) Server {
	var ids atomic.Int64
	return HTTP{
		Take: func(r *http.Request, body []byte) (Message, Answer, error) {
			head, text, _ := strings.Cut(string(body), "\n\n")
			m := Message{Key: r.Header.Get("X-Key")}
			for line := range strings.Lines(head) {
				k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				if u, err := strconv.Unquote(v); err == nil {
					v = u
				}
				switch k {
				case "To":
					m.To = v
				case "From":
					m.From = v
				case "Subject":
					m.Subject = v
				case "Reply-To":
					m.ReplyTo = v
				case "Reference":
					m.Reference = v
				case "HTML":
					m.HTML = v
				}
			}
			m.Body = text
			return m, Answer{Body: fmt.Sprintf(`{"id": "f-%d"}`, ids.Add(1))}, nil
		},
		Refuse: func(r *http.Request, body []byte, b Behaviour) Answer {
			code, h := b.Code, map[string]string{}
			switch {
			case b.Forbidden:
				code = "key"
			case b.Throttle != 0:
				code = "slow"
				if b.Throttle > 0 {
					h["Retry-After"] = strconv.Itoa(int(b.Throttle / time.Second))
				}
			}
			text, _ := json.Marshal(map[string]string{"code": code, "message": "no: " + string(body) + r.Header.Get("Authorization")})
			return Answer{Status: 400, Header: h, Body: string(text)}
		},
	}.Start(t)
}

func fakeSettings(f fault, in *provider.Settings) (at string) {
	if f == "knows every setting" {
		in.Others(in.Names()...)
	}
	switch f {
	case "does without a setting":
		in.Text("key", "")
	case "does without a secret":
		if in.Any("key") == nil {
			in.Fail("key", "is missing")
		}
	default:
		in.Required("key", "a key")
	}
	in.Others("receipts")
	return httpcall.Address(in, "endpoint", "").String()
}

// fakeReceipts is what Listen alone reads.
func fakeReceipts(in *provider.Settings) { in.Flag("receipts", true) }

func fakeErr(f fault, in *provider.Settings) error {
	err := in.Err()
	if err != nil && f == "tells a secret at Open" {
		err = fmt.Errorf("%w (the key is %s)", err, in.Text("key", ""))
	}
	return err
}

func fakeCheck(f fault, in *provider.Settings) {
	switch f {
	case "Check passes what Open refuses":
		in.Required("key", "a key")
		in.Others("endpoint")
		fakeReceipts(in)
		return
	case "Check does without a setting":
		in.Text("key", "")
		httpcall.Address(in, "endpoint", "")
		fakeReceipts(in)
		return
	case "Check knows every setting":
		in.Others(in.Names()...)
	case "Check opens":
		go func() { <-make(chan struct{}) }()
	case "Check judges what a variable holds":
		if key, _ := in.Any("key").(string); key != fakeSecret {
			in.Fail("receipts", "cannot be verified with this key")
		}
	}
	fakeSettings(f, in)
	if f != "Check does not know that Listen refuses" {
		fakeReceipts(in)
	}
}

func openFake(f fault, p schemas.Provider, deps provider.Deps) (provider.Provider, error) {
	in := deps.Settings(p)
	at := fakeSettings(f, in)
	if err := fakeErr(f, in); err != nil {
		return nil, err
	}
	s := &fakeProvider{fault: f, at: at, deps: deps, http: httpcall.New(httpcall.Config{}), stop: make(chan struct{})}
	if f == "goes on after Close" {
		go func() { <-make(chan struct{}) }()
	}
	return s, nil
}

type fakeProvider struct {
	fault fault
	at    string
	deps  provider.Deps
	http  *httpcall.Client
	stop  chan struct{}
	keys  atomic.Int64
	mu    sync.Mutex
	last  string
}

func (s *fakeProvider) Close() error { return s.http.Close() }

func (s *fakeProvider) Send(ctx context.Context, c *provider.Call) provider.Outcome {
	o := s.once(ctx, c)
	for range 2 {
		if s.fault == "tries again by itself" && o.Kind != provider.Accepted {
			o = s.once(ctx, c)
		}
	}
	return o
}

func (s *fakeProvider) once(ctx context.Context, c *provider.Call) provider.Outcome {
	switch s.fault {
	case "ignores the deadline":
		var cancel func()
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
		defer cancel()
	case "calls although the context is over":
		ctx = context.WithoutCancel(ctx)
	case "logs the recipient":
		s.deps.Logger.Info("sending", "to", c.To)
	case "prints the text":
		fmt.Fprintln(os.Stdout, c.Content.Body)
	}
	subject := c.Content.Subject
	if s.fault == "loses what follows a line's end" { // or it became a header of what is not text on the wire
		subject, _, _ = strings.Cut(strings.ReplaceAll(subject, "\r", "\n"), "\n")
	}
	text, html, key, ref := c.Content.Body, c.Content.HTML, c.ID, c.Reference().String()
	switch s.fault {
	case "drops emoji":
		text = strings.Map(func(r rune) rune {
			if r > 0xffff {
				return -1
			}
			return r
		}, text)
	case "cuts long text":
		text = text[:min(len(text), 160)]
	case "escapes the text":
		text = escape.Replace(text)
	case "a new key at each attempt":
		key += strconv.FormatInt(s.keys.Add(1), 10)
	case "one key for all":
		key = "key"
	case "no reference":
		ref = ""
	case "loses html":
		html = ""
	case "mixes calls up":
		s.mu.Lock()
		text, s.last = cmp.Or(s.last, text), text
		s.mu.Unlock()
	}
	quote := strconv.Quote
	if s.fault == "writes what it is given into headers" {
		quote = func(s string) string { return s }
	}
	body := fmt.Sprintf("To: %s\nFrom: %s\nSubject: %s\nReply-To: %s\nReference: %s\nHTML: %s\n\n%s", quote(c.To), quote(c.From), quote(subject), quote(c.ReplyTo), ref, strconv.Quote(html), text)
	req, err := http.NewRequest(http.MethodPost, s.at, bytes.NewReader([]byte(body)))
	if err != nil {
		return provider.Outcome{Kind: provider.Permanent, Code: "bad", Text: "bad"}
	}
	req.Header.Set("Authorization", fakeSecret)
	req.Header.Set("X-Key", key)
	a, none := s.http.Do(ctx, req)
	if a == nil {
		switch {
		case s.fault == "says a closed port may have it" && none.Kind == provider.Transient:
			none.MayBeReceived = true
		case s.fault == "gives up for good where the port is closed" && none.Kind == provider.Transient:
			none.Kind = provider.Permanent
		}
		return none
	}
	var said struct{ ID, Code, Message string }
	if json.Unmarshal(a.Body, &said) != nil && s.fault != "says accepted on garbage" {
		return provider.Outcome{Kind: provider.Unknown, MayBeReceived: true, Code: "garbage", Text: "the answer cannot be read"}
	}
	if a.Status == http.StatusOK {
		if s.fault == "no id" {
			said.ID = ""
		}
		return provider.Outcome{Kind: provider.Accepted, ProviderMessageID: said.ID}
	}
	switch said.Code {
	case "slow":
		wait, _ := strconv.Atoi(a.Header.Get("Retry-After"))
		switch s.fault {
		case "forgets how long to wait":
			wait = 0
		case "makes up how long to wait":
			wait = max(wait, 1)
		}
		return provider.Outcome{Kind: provider.Throttled, Code: "slow", Text: "too fast", RetryAfter: time.Duration(wait) * time.Second}
	case "key":
		if s.fault == "logs with the log package" {
			log.Print("refused: " + fakeSecret)
		}
		o := provider.Outcome{Kind: provider.Transient, Code: "key", Text: "the key is refused"}
		switch s.fault {
		case "wrong credentials are permanent":
			o.Kind = provider.Permanent
		case "wrong credentials are the recipient's":
			o.OfRecipient = true
		}
		return o
	}
	o := fakeCodes.Outcome(said.Code)
	switch s.fault {
	case "says a secret in the outcome":
		o.Text = "refused with " + fakeSecret
	case "repeats the provider's text":
		o.Text = said.Message
	case "maps a code wrongly":
		o.Kind = provider.Transient
	case "does not suppress":
		o.Suppress = ""
	case "takes unknown codes for success":
		if _, ok := fakeCodes.Of(said.Code); !ok {
			o = provider.Outcome{Kind: provider.Accepted}
		}
	case "a new line in the code":
		o.Code += "\n"
	}
	return o
}

type fakeListener fault

func (f fakeListener) Receipts(*provider.Hook) ([]provider.Receipt, provider.Reply, error) {
	if f == "believes everybody" {
		return nil, provider.Reply{}, nil
	}
	return nil, provider.Reply{}, provider.ErrForged
}

func (f fakeListener) Inbound(*provider.Hook) ([]provider.Inbound, provider.Reply, error) {
	return nil, provider.Reply{}, provider.ErrNoHook
}
