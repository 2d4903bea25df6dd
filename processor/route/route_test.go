package route

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weirhq/weir/schemas"
	"pgregory.net/rapid"
)

func provider(name string, channels ...schemas.Channel) schemas.Provider {
	return schemas.Provider{Name: name, Type: "simulated", Channels: channels}
}

func china() *schemas.Policy {
	return &schemas.Policy{
		Providers: []schemas.Provider{
			provider("aliyun", schemas.ChannelSMS), provider("tencent", schemas.ChannelSMS),
			provider("twilio", schemas.ChannelSMS, schemas.ChannelVoice), provider("ses", schemas.ChannelEmail),
			provider("drained", schemas.ChannelSMS),
		},
		Routes: []schemas.Route{
			{Name: "vip", Match: schemas.Match{Metadata: map[string][]string{"tier": {"gold", "black"}}}, To: []schemas.Target{{Provider: "twilio", Weight: 1}}},
			{Name: "china", Match: schemas.Match{Channel: []string{"sms"}, Prefix: []string{"86"}},
				To:       []schemas.Target{{Provider: "aliyun", Weight: 70}, {Provider: "tencent", Weight: 30}, {Provider: "drained", Weight: 0}},
				Failover: []string{"ses", "twilio"}},
			{Name: "mail", Match: schemas.Match{Channel: []string{"email"}}, To: []schemas.Target{{Provider: "ses", Weight: 1}}},
			{Name: "mistaken", Match: schemas.Match{Channel: []string{"push"}}, To: []schemas.Target{{Provider: "ses", Weight: 1}}},
		},
	}
}

func routesAlone(p *schemas.Policy) *schemas.Policy {
	q := *p
	q.RoutesOnly = new(true)
	return &q
}

// drainedMail has a provider of e-mail whose weight is 0.
func drainedMail() *schemas.Policy {
	p := china()
	p.Routes = []schemas.Route{{Name: "all", To: []schemas.Target{{Provider: "ses", Weight: 0}, {Provider: "twilio", Weight: 1}}}}
	return p
}

func only(names ...string) func(string) Share {
	return func(n string) Share {
		if slices.Contains(names, n) {
			return ShareFull
		}
		return ShareNone
	}
}

// having gives shares by name; who is not named has none.
func having(shares map[string]Share) func(string) Share {
	return func(n string) Share { return shares[n] }
}

func TestChoose(t *testing.T) {
	noRoutes := china()
	noRoutes.Routes = nil
	for _, tt := range []struct {
		name   string
		policy *schemas.Policy
		m      Message
		pick   uint64
		share  func(string) Share
		want   string
		reason Reason
	}{
		{name: "first share", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, pick: 69, want: "aliyun"},
		{name: "second share", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, pick: 70, want: "tencent"},
		{name: "modulo total", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, pick: 199, want: "tencent"},
		{name: "an earlier route wins", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000", Metadata: map[string]string{"tier": "black"}}, want: "twilio"},
		{name: "by channel", policy: china(), m: Message{Channel: "email", Key: "a@example.com"}, want: "ses"},
		{name: "no route matches: any of the channel", policy: china(), m: Message{Channel: "sms", Key: "+14155550100"}, pick: 3, want: "drained"},
		{name: "no route matches, for another channel", policy: china(), m: Message{Channel: "voice", Key: "+14155550100"}, want: "twilio"},
		{name: "no route matches, routes only", policy: routesAlone(china()), m: Message{Channel: "sms", Key: "+14155550100"}, reason: ReasonNoRoute},
		{name: "a route matches, routes only", policy: routesAlone(china()), m: Message{Channel: "email", Key: "a@example.com"}, want: "ses"},
		{name: "no routes, routes only", policy: routesAlone(noRoutes), m: Message{Channel: "sms", Key: "+1"}, reason: ReasonNoRoute},
		{name: "prefix 86 is no prefix of text", policy: routesAlone(china()), m: Message{Channel: "sms", Key: "86x"}, reason: ReasonNoRoute},
		{name: "a route without a provider of the channel is passed over", policy: china(), m: Message{Channel: "email", Key: "a@example.com", Metadata: map[string]string{"tier": "gold"}}, want: "ses"},
		{name: "a route that gives the channel to nobody is not", policy: drainedMail(), m: Message{Channel: "email", Key: "a@example.com"}, reason: ReasonNoRoute},
		{name: "route to a provider of another channel", policy: china(), m: Message{Channel: "push", Key: "t"}, reason: ReasonNoRoute},
		{name: "one target unusable", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, pick: 1, share: only("tencent", "twilio"), want: "tencent"},
		{name: "failover skips the wrong channel", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, share: only("ses", "twilio", "drained"), want: "twilio"},
		{name: "none usable", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, share: only(), reason: ReasonNoUsableProvider},
		{name: "weight 0 gets nothing", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, share: only("drained"), reason: ReasonNoUsableProvider},
		{name: "pinned", policy: china(), m: Message{Channel: "sms", Key: "+14155550100", Pinned: "tencent"}, want: "tencent"},
		{name: "pinned to a weight of 0", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000", Pinned: "drained"}, want: "drained"},
		{name: "pinned, unknown", policy: china(), m: Message{Channel: "sms", Pinned: "acme"}, reason: ReasonUnknownProvider},
		{name: "pinned, wrong channel", policy: china(), m: Message{Channel: "sms", Pinned: "ses"}, reason: ReasonWrongChannel},
		{name: "pinned, unusable: it waits there", policy: china(), m: Message{Channel: "sms", Pinned: "aliyun"}, share: only("tencent"), want: "aliyun"},
		{name: "a failover on probation is better than none", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, share: having(map[string]Share{"twilio": ShareProbing}), want: "twilio"},
		{name: "a target on probation before a failover on probation", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, share: having(map[string]Share{"tencent": ShareProbing, "twilio": ShareProbing}), want: "tencent"},
		{name: "a degraded target before a failover that is well", policy: china(), m: Message{Channel: "sms", Key: "+8613800000000"}, share: having(map[string]Share{"tencent": ShareDegraded, "twilio": ShareFull}), want: "tencent"},
		{name: "without routes, the channel's", policy: noRoutes, m: Message{Channel: "voice", Key: "+1"}, pick: 12345, want: "twilio"},
		{name: "without routes, by equal weight", policy: noRoutes, m: Message{Channel: "sms", Key: "+1"}, pick: 2, want: "twilio"},
		{name: "without routes, nobody serves it", policy: noRoutes, m: Message{Channel: "webhook"}, reason: ReasonNoRoute},
		{name: "empty policy", policy: &schemas.Policy{}, m: Message{Channel: "sms"}, reason: ReasonNoRoute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Choose(tt.policy, tt.m, tt.pick, tt.share)
			if tt.reason != "" {
				var e *Error
				if !errors.As(err, &e) || e.Reason != tt.reason || e.Detail == "" || got != "" {
					t.Fatalf("got %q, %v, want reason %s", got, err, tt.reason)
				}
				if e.Temporary() != (tt.reason == ReasonNoUsableProvider) {
					t.Error("Temporary")
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestSharesFollowWeights(t *testing.T) {
	p, m := china(), Message{Channel: "sms", Key: "+8613800000000"}
	const n = 100_000
	count, moved := map[string]int{}, map[string]int{}
	for i := range uint64(n) {
		all, _ := Choose(p, m, mix(i), nil)
		count[all]++
		// Without aliyun, what tencent had stays.
		left, err := Choose(p, m, mix(i), only("tencent", "twilio"))
		if err != nil || all == "tencent" && left != "tencent" {
			t.Fatalf("%s went to %s, %v", all, left, err)
		}
		moved[left]++
	}
	if got := float64(count["aliyun"]) / n; math.Abs(got-0.7) > 0.01 || count["aliyun"]+count["tencent"] != n {
		t.Errorf("shares %v", count)
	}
	if moved["tencent"] != n { // failover is for when no target is usable
		t.Errorf("after the loss of one: %v", moved)
	}

	// Four equal providers: what two lost is shared by the others evenly, and
	// nobody else moves.
	p = &schemas.Policy{Providers: []schemas.Provider{provider("a", "sms"), provider("b", "sms"), provider("c", "sms"), provider("d", "sms")}}
	heirs := map[string]int{}
	lost := 0
	for i := range uint64(n) {
		all, _ := Choose(p, m, mix(i), nil)
		left, _ := Choose(p, m, mix(i), only("a", "d"))
		if left != all && (all == "a" || all == "d") {
			t.Fatalf("%s moved to %s", all, left)
		}
		if all == "b" {
			lost++
			heirs[left]++
		}
	}
	if got := float64(heirs["a"]) / float64(lost); math.Abs(got-0.5) > 0.02 {
		t.Errorf("b's %d went to %v", lost, heirs)
	}
}

// Whatever the policy, the chosen provider exists, serves the channel and is
// usable; the policy is not written to; and an error says why.
func TestChooseIsSound(t *testing.T) {
	channels := []schemas.Channel{"sms", "email", "push"}
	names := []string{"a", "b", "c", "d", "ghost"}
	rapid.Check(t, func(t *rapid.T) {
		p := &schemas.Policy{}
		for _, n := range names[:4] {
			p.Providers = append(p.Providers, provider(n, rapid.SliceOfN(rapid.SampledFrom(channels), 0, 3).Draw(t, "channels")...))
		}
		for range rapid.IntRange(0, 3).Draw(t, "routes") {
			r := schemas.Route{Failover: rapid.SliceOfN(rapid.SampledFrom(names), 0, 2).Draw(t, "failover")}
			if rapid.Bool().Draw(t, "match") {
				r.Match.Channel = []string{string(rapid.SampledFrom(channels).Draw(t, "channel"))}
			}
			for range rapid.IntRange(0, 4).Draw(t, "targets") {
				r.To = append(r.To, schemas.Target{Provider: rapid.SampledFrom(names).Draw(t, "target"), Weight: rapid.IntRange(-1, 5).Draw(t, "weight")})
			}
			p.Routes = append(p.Routes, r)
		}
		m := Message{Channel: rapid.SampledFrom(channels).Draw(t, "channel"), Pinned: rapid.SampledFrom(append(names, "", "", "")).Draw(t, "pinned")}
		up := map[string]Share{}
		for _, n := range names {
			up[n] = rapid.SampledFrom([]Share{ShareNone, ShareProbing, ShareDegraded, ShareFull}).Draw(t, "up")
		}
		pick := rapid.Uint64().Draw(t, "pick")
		var before []schemas.Target
		for _, r := range p.Routes {
			before = append(before, r.To...)
		}
		got, err := Choose(p, m, pick, having(up))
		again, _ := Choose(p, m, pick, having(up))
		if got != again {
			t.Fatalf("%q, then %q", got, again)
		}
		var after []schemas.Target
		for _, r := range p.Routes {
			after = append(after, r.To...)
		}
		for i := range before {
			if before[i] != after[i] {
				t.Fatal("wrote to the policy")
			}
		}
		if err != nil {
			var e *Error
			if got != "" || !errors.As(err, &e) || e.Reason == "" {
				t.Fatalf("%q, %v", got, err)
			}
			return
		}
		if up[got] == ShareNone && m.Pinned == "" || !serves(p, got, m.Channel) || m.Pinned != "" && got != m.Pinned {
			t.Fatalf("chose %q for %+v", got, m)
		}
	})
}

// TestUnroutable: an edit says of which channels no message finds a provider any more.
func TestUnroutable(t *testing.T) {
	both := &schemas.Policy{Providers: []schemas.Provider{provider("a", schemas.ChannelSMS), provider("m", schemas.ChannelEmail)}}
	with := func(only bool, routes ...schemas.Route) *schemas.Policy {
		p := *both
		p.Routes, p.RoutesOnly = routes, &only
		return &p
	}
	to := func(name string, weight int) []schemas.Target {
		return []schemas.Target{{Provider: name, Weight: weight}}
	}
	sms := schemas.Route{Match: schemas.Match{Channel: []string{"sms"}}, To: to("a", 1)}
	for _, tt := range []struct {
		name       string
		have, next *schemas.Policy
		want       []schemas.Channel
	}{
		{"one route for sms", both, with(false, sms), nil},
		{"one route for sms, and routes only", both, with(true, sms), []schemas.Channel{"email"}},
		{"at the first apply", &schemas.Policy{}, with(true, sms), []schemas.Channel{"email"}},
		{"routes only, without any", both, with(true), []schemas.Channel{"sms", "email"}},
		{"a route of some classes is one", both, with(true, sms, schemas.Route{Match: schemas.Match{Class: []string{"x"}}, To: to("m", 1)}), nil},
		{"a failover is one", both, with(true, sms, schemas.Route{To: to("m", 0), Failover: []string{"m"}}), nil},
		{"one that takes all and gives nothing", both, with(false, sms, schemas.Route{To: to("m", 0)}), []schemas.Channel{"email"}},
		{"one that takes some and gives nothing", both, with(false, sms, schemas.Route{Match: schemas.Match{Class: []string{"x"}}, To: to("m", 0)}), nil},
		{"its last provider goes", both, &schemas.Policy{Providers: both.Providers[:1]}, []schemas.Channel{"email"}},
		{"it had none before", &schemas.Policy{Providers: both.Providers[:1]}, &schemas.Policy{Providers: both.Providers[:1]}, nil},
	} {
		if got := Unroutable(tt.have, tt.next); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
