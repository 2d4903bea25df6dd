package providertest

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/schemas"
)

const plain = "Your code is " + marker

// texts are what must arrive as it was sent.
var texts = []struct{ name, text string }{
	{"umlauts and signs of GSM 03.38", marker + " @£$¥èéùìòÇØøÅåΔΦΓΛΩΠΨΣΘΞÆæßÉ¤¡ÄÖÑÜ§¿äöñüà €[]{}\\~^|"},
	{"emoji", marker + " 🙂👩‍👩‍👧‍👦🇨🇳 done ✅"},
	{"right to left", marker + " رمزك هو ٤٠٢٩٣١ \u200f הקוד שלך"},
	{"CJK", marker + " 您的验证码是，五分钟内有效。コードは　𠮷野家"},
	{"quotes and markup", marker + ` "it's" <b>&amp; 5 < 6 > 4 & </Say>]]> \n \" %41 + ; = #`},
	{"lines", marker + "\nsecond\n\nfourth\tafter a tab\n.\n.hidden dot\nFrom me"},
	{"what looks like a template", marker + " {{code}} {{{to}}} ${HOME} %s %d {0} #code# {1}"},
	{"accents that combine", marker + " e\u0301 a\u0308 \u1e9b\u0323"},
}

// long are ten short messages' worth.
var long = []struct{ name, text string }{
	{"10 segments of GSM 03.38", marker + strings.Repeat(" ten parts of text", 85)[:1530-len(marker)]},
	{"10 segments of UCS-2", marker + strings.Repeat("十条短信长的内容🙂", 66) + "尾"},
}

func (a *Adapter) checks() []check {
	var out []check
	add := func(name string, needs Lack, run func(*env)) { out = append(out, check{name, needs, run}) }
	first := a.Channels[0]

	for _, ch := range a.Channels {
		add("success on "+string(ch), "", func(e *env) {
			c := e.call(ch, plain)
			_, m := e.accepted(c)
			e.same(&c, m)
			e.calls(1)
		})
	}
	add("the provider's id comes back", LacksMessageID, func(e *env) {
		one, _ := e.accepted(e.call(first, plain))
		two, _ := e.accepted(e.numbered(first, 2))
		if one.ProviderMessageID == "" || one.ProviderMessageID == two.ProviderMessageID {
			e.Errorf("the ids of two calls are %q and %q", one.ProviderMessageID, two.ProviderMessageID)
		}
	})
	add("the reference travels", LacksReference, func(e *env) {
		for i := range 2 {
			c := e.numbered(first, i)
			_, m := e.accepted(c)
			if r, err := provider.ParseReference(m.Reference); err == nil && r != c.Reference() || err != nil && m.Reference != c.ID {
				e.Errorf("the reference is %q: neither the call's Reference nor its ID", m.Reference)
			}
		}
	})
	add("the same call twice has one key", LacksIdempotency, func(e *env) {
		c := e.call(first, plain)
		_, one := e.accepted(c)
		c.Attempt = 2
		_, again := e.accepted(c)
		_, other := e.accepted(e.numbered(first, 2))
		if one.Key == "" || one.Key != again.Key || one.Key == other.Key {
			e.Errorf("keys: %q, again %q, of another message %q", one.Key, again.Key, other.Key)
		}
	})

	if a.Type.Codes != nil {
		for _, row := range a.Type.Codes.Send {
			code, _ := a.sample(row)
			add("code "+row.Code, "", func(e *env) { e.refused(e.call(first, plain), code, row) })
		}
	}
	add("an unknown code", LacksCodes, func(e *env) {
		e.refused(e.call(first, plain), a.UnknownCode, a.Type.Codes.Else)
	})
	add("throttled, with a time", LacksRetryAfter, func(e *env) {
		e.server.Do(Behaviour{Throttle: 7 * time.Second})
		o := e.send(e.call(first, plain), ample)
		e.is(o, provider.Throttled, false)
		if o.RetryAfter != 7*time.Second {
			e.Errorf("told to wait %s, want 7s", o.RetryAfter)
		}
		e.calls(1)
	})
	add("throttled, without a time", "", func(e *env) {
		e.server.Do(Behaviour{Throttle: -1})
		o := e.send(e.call(first, plain), ample)
		e.is(o, provider.Throttled, false)
		if o.RetryAfter != 0 {
			e.Errorf("told to wait %s by nobody", o.RetryAfter)
		}
		e.calls(1)
	})
	add("no answer within the deadline", "", func(e *env) {
		e.inTime(func() (provider.Outcome, time.Duration) {
			ctx, cancel := context.WithTimeout(e.Context(), short)
			defer cancel()
			before := time.Now()
			return e.sendIn(ctx, e.call(first, plain)), time.Since(before) - short
		})
	})
	add("garbage for an answer", "", func(e *env) {
		e.server.Do(Behaviour{Garbage: true})
		e.is(e.send(e.call(first, plain), 3*time.Second), provider.Unknown, true)
		e.calls(1)
	})
	add("the connection breaks after the call was read", "", func(e *env) {
		e.server.Do(Behaviour{Break: true})
		e.is(e.send(e.call(first, plain), 3*time.Second), provider.Unknown, true)
		e.calls(1)
	})
	add("a kept connection breaks after the call was read", "", func(e *env) {
		e.accepted(e.call(first, plain))
		e.server.Do(Behaviour{Break: true})
		e.is(e.send(e.call(first, plain), 3*time.Second), provider.Unknown, true)
		e.calls(2)
		e.server.Do(Behaviour{})
		e.eventually("it does not recover", func() bool { return e.send(e.call(first, plain), ample).Kind == provider.Accepted })
	})
	add("a closed port", "", func(e *env) {
		e.server.Do(Behaviour{Closed: true})
		e.is(e.send(e.call(first, plain), time.Second), provider.Transient, false)
		e.calls(0)
	})
	add("wrong credentials", "", func(e *env) {
		e.server.Do(Behaviour{Forbidden: true})
		o, want := e.send(e.call(first, plain), ample), provider.Transient // and so the breaker acts, and nothing is lost
		if a.lacks(LacksAccount) {
			want = provider.Permanent
		}
		e.is(o, want, false)
		if o.OfRecipient {
			e.Errorf("nobody's credentials are the recipient's: %+v", o)
		}
		if n := len(e.server.Received()); n != 0 {
			e.Errorf("%d messages were taken", n)
		}
	})
	add("a context that is over", "", func(e *env) {
		ctx, cancel := context.WithCancel(e.Context())
		cancel()
		o := e.sendIn(ctx, e.call(first, plain))
		if o.Kind == provider.Accepted || o.MayBeReceived {
			e.Errorf("%+v without a call", o)
		}
		e.calls(0)
	})
	add("a context that is cancelled during the call", "", func(e *env) {
		e.inTime(func() (provider.Outcome, time.Duration) {
			ctx, cancel := context.WithTimeout(e.Context(), ample)
			defer cancel()
			before := e.server.Calls()
			var at time.Time
			var wg sync.WaitGroup
			wg.Go(func() {
				for ctx.Err() == nil && e.server.Calls() == before {
					time.Sleep(time.Millisecond)
				}
				at = time.Now()
				cancel()
			})
			o := e.sendIn(ctx, e.call(first, plain))
			over := time.Now()
			cancel()
			wg.Wait()
			return o, over.Sub(at)
		})
	})
	add("50 calls at once", "", (*env).concurrent)
	for _, ch := range a.Channels {
		for _, tt := range texts {
			add(string(ch)+": "+tt.name, "", func(e *env) { e.faithful(ch, tt.text) })
		}
		for _, tt := range long {
			add(string(ch)+": "+tt.name, LacksBody, func(e *env) { e.faithful(ch, tt.text) })
		}
		for _, field := range []string{"from", "subject", "reply-to", "title"} {
			if ch == schemas.ChannelEmail && field != "title" || ch == schemas.ChannelPush && field == "title" || (ch == schemas.ChannelSMS || ch == schemas.ChannelVoice || ch == schemas.ChannelWebhook) && field == "from" {
				add(string(ch)+": CR LF in "+field+" adds no header", Lack(map[string]Lack{"from": LacksFrom, "reply-to": LacksReplyTo, "title": LacksTitle}[field]), func(e *env) { e.injected(ch, field) })
			}
		}
	}
	add("Close leaves nothing running", "", (*env).closed)
	add("an unknown setting is refused", "", (*env).unknownSetting)
	add("a missing setting is refused by name", "", (*env).missingSettings)
	add("Check refuses what Open refuses, and nothing else", "", (*env).checked)
	add("Check opens nothing", "", func(e *env) {
		before := settled()
		if err := e.check(e.settings()); err != nil {
			e.Errorf("%v", err)
		}
		if runtime.NumGoroutine() > before {
			e.Errorf("it left goroutines running")
		}
	})
	add("a secret that the environment lacks is refused by name", "", (*env).missingSecret)
	if a.Type.Listen != nil {
		add("requests that are not the provider's are forged", "", (*env).forged)
	}
	return out
}

// numbered is a call of a message of its own.
func (e *env) numbered(channel schemas.Channel, n int) provider.Call {
	c := e.call(channel, fmt.Sprintf("Your code is %s-%03d", marker, n))
	c.ID = fmt.Sprintf("0199b2a0-5c00-7000-8000-00000000%04d", n)
	return c
}

// refused has the server refuse with a code and compares with its row.
func (e *env) refused(c provider.Call, code string, row provider.Code) {
	e.Helper()
	e.server.Do(Behaviour{Code: code})
	o := e.send(c, ample)
	if row.Kind == provider.Accepted {
		if o.Kind != provider.Accepted {
			e.Errorf("%+v, want accepted", o)
		}
		return
	}
	want := e.a.Type.Codes.Outcome(code)
	if o.Kind != row.Kind || o.MayBeReceived != want.MayBeReceived || o.OfRecipient != want.OfRecipient || o.OfProvider != want.OfProvider || o.Suppress != row.Suppress {
		e.Errorf("\n got %+v\nwant %s, received perhaps: %v, of the recipient: %v, of the provider: %v, suppress %q", o, row.Kind, want.MayBeReceived, want.OfRecipient, want.OfProvider, row.Suppress)
	}
	if !strings.Contains(o.Code, code) {
		e.Errorf("the outcome's code is %q, without the provider's %q", o.Code, code)
	}
	if row.Means == "" {
		e.Errorf("the row does not say what the code means")
	}
	e.calls(1)
}

// faithful sends text and compares what arrives.
func (e *env) faithful(channel schemas.Channel, text string) {
	e.Helper()
	c := e.call(channel, text)
	if channel == schemas.ChannelPush && len(text) > 1000 { // three times it would be over what a push may have
		c.Content.Title, c.Data = "", nil
	}
	_, m := e.accepted(c)
	e.same(&c, m)
	if channel == schemas.ChannelSMS && m.Parts > 0 && len(text) > 1000 && (m.Parts < 10 || m.Parts > 11) { // 11 where no character may be cut
		e.Errorf("%d parts, want 10", m.Parts)
	}
}

var injectedHeader = regexp.MustCompile(`(?im)^\W*x-injected\s*:|^\W*bcc\s*:`)

// injected tries to add headers. That the call is refused, and surely not received,
// is as good as that the text travels where it can do nothing.
func (e *env) injected(channel schemas.Channel, field string) {
	e.Helper()
	for _, attempt := range []string{"\r\nX-Injected: yes", "\nX-Injected: yes", "\rX-Injected: yes", "\r\n\r\nX-Injected: yes", "\r\nBcc: other@weir.example"} {
		c := e.call(channel, plain)
		switch field {
		case "from":
			c.From += attempt
		case "subject":
			c.Content.Subject += attempt
		case "reply-to":
			c.ReplyTo += attempt
		case "title":
			c.Content.Title += attempt
		}
		o := e.send(c, ample)
		got := e.server.Received()
		switch {
		case o.Kind == provider.Permanent && !o.MayBeReceived && len(got) == 0:
		case o.Kind == provider.Accepted && len(got) == 1 && got[0].To == c.To:
			// Where the wire cannot be read, what became a header is missing in the field.
			m := map[string]string{"from": got[0].From, "subject": got[0].Subject, "reply-to": got[0].ReplyTo, "title": got[0].Title}[field]
			if want := strings.TrimLeft(attempt, "\r\n"); !strings.Contains(m, want) && !e.a.lacks(LacksBody) {
				e.Errorf("%q: the %s arrived as %q, and where is the rest?", attempt, field, m)
			}
		default:
			e.Errorf("%q: %+v, and %d messages arrived", attempt, o, len(got))
		}
		// What a bare CR does depends on who reads it, so it counts as a line's end.
		if wire := strings.ReplaceAll(e.server.Wire(), "\r", "\n"); injectedHeader.MatchString(wire) {
			e.Errorf("%q made a header:\n%s", attempt, wire)
		}
	}
}

func (e *env) concurrent() {
	const n = 50
	outcomes := make([]provider.Outcome, n)
	calls := make([]provider.Call, n)
	for i := range calls {
		calls[i] = e.numbered(e.a.Channels[0], i)
		e.forbid(&calls[i])
	}
	ctx, cancel := context.WithTimeout(e.Context(), ample)
	defer cancel()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { outcomes[i] = e.provider.Send(ctx, &calls[i]) })
	}
	wg.Wait()
	ids := make(map[string]bool)
	for i, o := range outcomes {
		for _, problem := range e.problems(o) {
			e.Errorf("call %d: %s: %+v", i, problem, o)
		}
		if o.Kind != provider.Accepted {
			e.Errorf("call %d: %+v", i, o)
		}
		ids[o.ProviderMessageID] = true
	}
	if !e.a.lacks(LacksMessageID) && len(ids) != n {
		e.Errorf("%d calls had %d ids of the provider's", n, len(ids))
	}
	arrived := make(map[string]int)
	for _, m := range e.server.Received() {
		texts := []string{m.Body}
		for _, v := range m.Params {
			texts = append(texts, v)
		}
		for _, s := range texts {
			arrived[strings.TrimRight(s, "\r\n")]++
		}
	}
	for i := range calls {
		if arrived[calls[i].Content.Body] != 1 {
			e.Errorf("call %d arrived %d times", i, arrived[calls[i].Content.Body])
		}
	}
	e.calls(n)
}

// closed opens and closes several, so that what one leaves is not hidden by what
// ends meanwhile of the tests before.
func (e *env) closed() {
	before := settled()
	for range 10 {
		p, err := e.open(e.a.Settings(e.server.Endpoint()), e.deps)
		if err != nil {
			e.Fatalf("open: %v", err)
		}
		c := e.call(e.a.Channels[0], plain)
		ctx, cancel := context.WithTimeout(e.Context(), ample)
		if o := p.Send(ctx, &c); o.Kind != provider.Accepted {
			e.Errorf("%+v", o)
		}
		cancel()
		done := make(chan error, 1)
		go func() { done <- p.Close() }()
		select {
		case err := <-done:
			if err != nil {
				e.Errorf("close: %v", err)
			}
		case <-time.After(ample):
			e.Fatalf("Close did not return within %s", ample)
		}
	}
	e.eventually("goroutines are left after Close", func() bool { return runtime.NumGoroutine() <= before })
}

// settled is how many goroutines there are, once the count has stood still.
func settled() int {
	n, since := runtime.NumGoroutine(), time.Now()
	for end := time.Now().Add(2 * time.Second); time.Since(since) < 30*time.Millisecond && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if now := runtime.NumGoroutine(); now != n {
			n, since = now, time.Now()
		}
	}
	return n
}
