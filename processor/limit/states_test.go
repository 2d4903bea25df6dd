package limit

import (
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// states holds what the table says is left to what the oracle counts: now, in the
// last millisecond before the reset, and at it. Asked for scope by scope it is
// the same.
func (w *world) states() {
	s := w.subject()
	got := w.table.States(nil, w.rules, s, schemas.Millis(w.now))
	w.note("states %+v: %+v", *s, got)
	left := func(name string, at int64) int64 {
		_, _, counts := w.oracle.passes(w.limits, s, func(int) bool { return false }, at)
		count, ok := counts[name]
		if !ok {
			w.fail("%s does not apply", name)
		}
		return count
	}
	k := 0
	var one []schemas.LimitState // asked scope by scope
	inquiry := w.rules.Inquire(s, 1)
	for i := range w.limits {
		l := &w.limits[i]
		if !oracleMatches(l, s) || l.Mode == schemas.ModeObserve {
			continue
		}
		if unsaid := s.Metadata["ip"] == "" && slices.Contains(l.Per, "metadata.ip"); unsaid != slices.Contains(inquiry.Unknown, l.Name) {
			w.fail("what it counts by is said: %v, and the inquiry leaves out %v", !unsaid, inquiry.Unknown)
		} else if unsaid {
			w.unknown++
			one = append(one, got[k:][:len(oracleWindows(l, s))]...)
		}
		if ask := inquiry.Asks[0]; ask != nil {
			for _, a := range ask.Scopes {
				if a.Limit == l.Name {
					one = w.table.StatesIn(one, w.rules, a.Limit, a.Scope, s.Recipient, schemas.Millis(w.now))
				}
			}
		}
		for _, o := range oracleWindows(l, s) {
			if k == len(got) {
				w.fail("only %d windows", k)
			}
			m := got[k]
			k++
			w.told++
			name := l.Name + " " + o.String()
			remains := max(o.N-left(name, w.now), 0)
			if m.Limit != l.Name || m.Window != o.String() || m.N != o.N || m.Violated || m.Remaining != remains {
				w.fail("%s of %d: %d left, it says %+v", name, o.N, remains, m)
			}
			if (m.Reset == 0) != (remains == o.N) || m.Reset != 0 && int64(m.Reset) <= w.now {
				w.fail("%s: %d of %d left, it grows at %d", name, remains, o.N, m.Reset)
			}
			if m.Reset == 0 {
				continue
			}
			if before, after := max(o.N-left(name, int64(m.Reset)-1), 0), max(o.N-left(name, int64(m.Reset)), 0); before != remains || after <= remains {
				w.fail("%s: %d left; before %d it is %d, then %d", name, remains, m.Reset, before, after)
			}
		}
	}
	if k != len(got) {
		w.fail("%d windows, want %d", len(got), k)
	}
	if !slices.Equal(one, got) {
		w.fail("asked scope by scope %+v", one)
	}
}

func statesPolicy(t *testing.T, text string) *Rules {
	t.Helper()
	doc, err := schemas.ParsePolicy("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(&doc.Policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const inquired = `
mailboxes: [{domains: [gmail.com], ignore: [dots, tag]}]
providers: [{name: one, type: simulated, channels: [sms, email]}]
classes: [{name: code}, {name: news}]
tenants: [{name: mailer}]
limits:
  - {name: recipient, per: [recipient], allow: [2/60s], exempt: ["+15005550006"], overrides: [{to: "+15005550001", allow: [7/60s]}]}
  - {name: same-text, per: [recipient, content], allow: [1/60s]}
  - {name: codes, match: {class: code}, per: [recipient, class], allow: [3/60s]}
  - {name: watched, per: [recipient], allow: [1/60s], mode: observe}
  - {name: tenant, per: [tenant], allow: [100/60s]}
  - {name: address, per: [metadata.ip], allow: [5/60s]}
  - {name: country, per: [country], allow: [50/60s]}
  - {name: by-one, match: {provider: one}, per: [tenant], allow: [40/60s]}
  - {name: vip, match: {metadata.plan: vip}, per: [tenant], allow: [30/60s]}
  - {name: all, per: [], allow: [1000/60s]}
  - {name: box, match: {tenant: mailer}, per: [mailbox], allow: [2/60s]}
  - {name: former, per: [], allow: [1/60s], mode: "off"}
`

func TestInquire(t *testing.T) {
	r := statesPolicy(t, inquired)
	for _, c := range []struct {
		name         string
		s            Subject
		ask, unknown string
	}{
		{"a number", Subject{Recipient: "+8613800000000", Country: "CN", Tenant: "acme", Channel: "sms", Class: "code"},
			"recipient=+8613800000000 codes=recipient=+8613800000000,class=code tenant=tenant=acme country=country=CN all=", "same-text address by-one vip"},
		{"all is said", Subject{Recipient: "+8613800000000", Country: "CN", Tenant: "acme", Channel: "sms", Class: "news", Provider: "one", Content: "c", Metadata: map[string]string{"ip": "10.0.0.1", "plan": "vip"}},
			"recipient=+8613800000000 same-text=recipient=+8613800000000,content=c tenant=tenant=acme address=metadata.ip=10.0.0.1 country=country=CN by-one=tenant=acme vip=tenant=acme all=", ""},
		{"other than what they match", Subject{Recipient: "+8613800000000", Country: "CN", Tenant: "acme", Class: "news", Provider: "two", Metadata: map[string]string{"ip": "1", "plan": "none"}},
			"recipient=+8613800000000 tenant=tenant=acme address=metadata.ip=1 country=country=CN all=", "same-text"},
		{"exempt, and of no country", Subject{Recipient: "+15005550006", Tenant: "acme", Class: "news", Provider: "two", Metadata: map[string]string{"plan": "none"}},
			"tenant=tenant=acme all=", "same-text address"},
		{"a mailbox", Subject{Recipient: "a.nn+x@gmail.com", Channel: "email", Tenant: "mailer", Class: "news", Provider: "two", Content: "c", Metadata: map[string]string{"ip": "1", "plan": "none"}},
			"recipient=a.nn+x@gmail.com same-text=recipient=a.nn+x@gmail.com,content=c tenant=tenant=mailer address=metadata.ip=1 all= box=mailbox=ann@gmail.com", ""},
		{"no class", Subject{Recipient: "a@example.com", Tenant: "acme", Provider: "two", Metadata: map[string]string{"ip": "1", "plan": "none"}},
			"recipient=a@example.com tenant=tenant=acme address=metadata.ip=1 all=", "same-text codes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int32{1, 5} {
				q := r.Inquire(&c.s, n)
				var got []string
				for owner, ask := range q.Asks {
					for _, a := range ask.Scopes {
						got = append(got, a.Limit+"="+a.Scope)
						key := a.Scope
						if own := strings.HasPrefix(a.Scope, "recipient=") || a.Limit == "recipient"; own {
							if key = c.s.Recipient; ask.To != key {
								t.Errorf("%s of %q, and it asks for %q", a.Limit, key, ask.To)
							}
						}
						if schemas.PartitionOf(key, n) != owner {
							t.Errorf("%s of %q is not partition %d's", a.Limit, a.Scope, owner)
						}
					}
				}
				want := strings.Fields(c.ask)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("asks %q, want %q", got, want)
				}
				if got := strings.Join(q.Unknown, " "); got != c.unknown {
					t.Errorf("does not know %q, want %q", got, c.unknown)
				}
			}
		})
	}
}

// TestStatesInRefuses: a question is written by others than the table's owner, and
// may be of another revision. What is not in force, or not so, is not answered.
func TestStatesInRefuses(t *testing.T) {
	r := statesPolicy(t, inquired)
	table := NewTable()
	defer table.Close()
	const to, now = "+8613800000000", 1_800_000_000_000
	for _, c := range []struct {
		limit, scope, to string
		n                int64 // of its first window; 0: not answered
	}{
		{"recipient", to, to, 2},
		{"recipient", "+15005550001", "+15005550001", 7},
		{"recipient", "+15005550006", "+15005550006", 0},
		{"recipient", to, "+8613800000001", 0},
		{"recipient", "recipient=" + to, to, 0},
		{"recipient", to, "", 0},
		{"codes", "recipient=" + to + ",class=code", to, 3},
		{"codes", "recipient=" + to + ",class=code", "+8613800000001", 0},
		{"codes", "recipient=" + to + "1,class=code", to, 0},
		{"codes", "recipient=" + to, to, 0},
		{"codes", "recipient=" + to + ",channel=sms", to, 0},
		{"watched", to, to, 0},
		{"former", "", "", 0},
		{"none", "", "", 0},
		{"all", "", "", 1000},
		{"all", "", to, 0},
		{"tenant", "tenant=acme", "", 100},
		{"tenant", "channel=sms", "", 0},
		{"tenant", "", "", 0},
	} {
		got := table.StatesIn(nil, r, c.limit, c.scope, c.to, now)
		var n int64
		if len(got) > 0 {
			n = got[0].N
		}
		if n != c.n || n > 0 && (got[0].Remaining != n || got[0].Limit != c.limit || got[0].Reset != 0) {
			t.Errorf("%s in %q of %q: %+v, want n %d", c.limit, c.scope, c.to, got, c.n)
		}
	}
	if table.Len() != 0 {
		t.Error("asking made a slot")
	}
}

// TestStatesInWide: what owners charge is what they tell.
func TestStatesInWide(t *testing.T) {
	r := statesPolicy(t, inquired)
	table := NewTable()
	defer table.Close()
	const now = schemas.Millis(1_800_000_000_000)
	var res Result
	for i := range schemas.Millis(3) {
		table.DecideStep(&res, r, nil, []schemas.Ask{{Limit: "address", Scope: "metadata.ip=1", Cost: 1}}, nil, nil, now+10*i)
	}
	want := schemas.LimitState{Limit: "address", Window: "5/60s", N: 5, Remaining: 2, Reset: now + 60_000}
	if got := table.StatesIn(nil, r, "address", "metadata.ip=1", "", now+30); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want.Remaining, want.Reset = 3, now+60_010
	if got := table.StatesIn(nil, r, "address", "metadata.ip=1", "", now+60_000); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
