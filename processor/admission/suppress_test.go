package admission

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/schemas"
)

// TestSuppressionEnds: what says when it ends covers nothing from then on, to the
// millisecond, and its decision and the ends that it makes say until when.
func TestSuppressionEnds(t *testing.T) {
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		begin := b.now
		until := begin + 5000
		e := b.want(b.request(`{"action":"suppress","to":%q,"channel":"sms","expires_at":%q,"metadata":{"reason":"stop","provider":"one","note":"x"}}`, codeTo, until), "decision suppress suppress").event
		if e.RetryAt != until || e.ErrorCode != "stop" || e.Provider != "one" || e.To != codeTo || e.Channel != "sms" {
			t.Errorf("the log does not say who is suppressed until when and why: %+v", e)
		}
		again(b)
		b.now = until - 1
		if e := b.want(b.request(code), "suppressed suppress suppressed").event; e.RetryAt != until || e.ErrorCode != "stop" {
			t.Errorf("an end does not say until when and why: %+v", e)
		}
		if got, want := b.p.suppressed.told(codeTo, "default", b.now), (schemas.Suppression{Channel: "sms", At: begin, Until: until, Reason: "stop", Provider: "one"}); len(got) != 1 || got[0] != want {
			t.Errorf("told %+v, want %+v", got, want)
		}
		again(b)
		b.now = until
		if got := b.p.suppressed.told(codeTo, "default", b.now); len(got) != 0 {
			t.Errorf("it is told when it is over: %+v", got)
		}
		b.want(b.request(`{"action":"unsuppress","to":%q,"channel":"sms"}`, codeTo), "decision nothing not_suppressed")
		b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
	})
}

// TestSuppressionChanges: the latest word on a scope is what stands.
func TestSuppressionChanges(t *testing.T) {
	const changed, repeated = "decision suppress suppress", "decision nothing repeated"
	both(t, func(t *testing.T, again func(*bench)) {
		b := newBench(t)
		at := func(d schemas.Millis) string { return (b.now + d).String() }
		far, near, over := at(1_000_000), at(1000), at(0)
		say := func(more, want string) {
			t.Helper()
			again(b)
			b.want(b.request(`{"action":"suppress","to":%q%s}`, codeTo, more), want)
		}
		b.now++
		say(``, changed)
		say(``, repeated)
		say(`,"expires_at":"`+far+`"`, changed)
		say(`,"expires_at":"`+far+`"`, repeated)
		say(`,"expires_at":"`+far+`","metadata":{"reason":"stop"}`, changed)
		say(`,"expires_at":"`+far+`","metadata":{"reason":"stop"}`, repeated)
		say(`,"expires_at":"`+far+`","metadata":{"reason":"stop","provider":"one"}`, changed)
		say(`,"expires_at":"`+near+`","metadata":{"reason":"stop","provider":"one"}`, changed)
		say(`,"expires_at":"`+over+`"`, "decision reject expires_at_out_of_range > dlq")
		say(`,"metadata":{"reason":"`+strings.Repeat("r", 65)+`"}`, "decision reject too_long > dlq")
		b.now += 1000
		say(`,"expires_at":"`+near+`","metadata":{"reason":"stop","provider":"one"}`, "decision reject expires_at_out_of_range > dlq") // it is over
		b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
		if n := b.log.of(suppressionKind); n != 1 {
			t.Errorf("%d records in the ledger: it is dropped by the hour, or when it is touched", n)
		}
		b.now += 2*endingHour + 1
		b.want(b.request(`{"action":"unsuppress","to":"+8613800000009"}`), "decision nothing not_suppressed")
		if n := b.log.of(suppressionKind); n != 0 || len(b.p.suppressed.base) != 0 {
			t.Errorf("%d records in the ledger, %d in memory, of what is over", n, len(b.p.suppressed.base))
		}
	})
}

// TestSuppressionOfVersion1: it stands until it is lifted, and is written anew as
// version 2 when it changes.
func TestSuppressionOfVersion1(t *testing.T) {
	b := newBench(t)
	k := suppressionKey(codeTo)
	b.log.ledger = map[string][]byte{"s" + string(k[:]): []byte(`{"v":1,"to":"+8613800000000","scopes":[{"class":"code","at":"2026-11-21T09:00:00.000Z"}]}`)}
	if err := b.p.load([]byte("s"+string(k[:])), b.log.ledger["s"+string(k[:])]); err != nil {
		t.Fatal(err)
	}
	if e := b.want(b.request(code), "suppressed suppress suppressed").event; e.RetryAt != 0 || e.ErrorCode != "" {
		t.Errorf("%+v", e)
	}
	b.want(b.request(`{"action":"suppress","to":%q,"class":"code"}`, codeTo), "decision nothing repeated")
	b.want(b.request(`{"action":"suppress","to":%q,"class":"code","expires_at":%q}`, codeTo, b.now+1000), "decision suppress suppress")
	if got := string(b.log.ledger["s"+string(k[:])]); !strings.Contains(got, `"v":2`) || !strings.Contains(got, `"until":`) {
		t.Error(got)
	}
	b.restart()
	b.want(b.request(code), "suppressed suppress suppressed")
	b.now += 1000
	b.want(b.request(code), "queued admit +1 > dispatch.one.normal")
}

// TestSuppressionsFitARecord: a recipient with all that it may have, in the longest
// words, is a record that Kafka takes as it comes (message.max.bytes 1048588).
func TestSuppressionsFitARecord(t *testing.T) {
	r := suppressed{Version: suppressedVersion, To: strings.Repeat("1", 2048)}
	long := strings.Repeat("x", 60)
	for i := range maxScopes {
		r.Scopes = append(r.Scopes, suppression{
			scope: scope{Tenant: long + "1234", Channel: string(schemas.ChannelWebhook), Class: fmt.Sprintf("%s%04d", long, i)},
			terms: terms{Until: schemas.Millis(253402300799999), Reason: strings.Repeat("<", schemas.MaxSuppressReason), Provider: long + "1234"}, // six bytes each
			At:    schemas.Millis(253402300799999),
		})
	}
	b, err := json.Marshal(r)
	if err != nil || len(b) > 1_000_000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestSuppressionsThatAreOver: what has ended takes no room from what is said now,
// also where nothing has swept it away yet.
func TestSuppressionsThatAreOver(t *testing.T) {
	const to = "+8613800138000"
	s := newSuppressions()
	for i := range maxScopes {
		if _, err := s.add(to, scope{Class: fmt.Sprint(i)}, terms{Until: 100}, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.add(to, scope{Class: "one more"}, terms{}, 99); err == nil {
		t.Errorf("more than %d stand", maxScopes)
	}
	if ok, err := s.add(to, scope{Class: "one more"}, terms{}, 100); !ok || err != nil {
		t.Errorf("nobody can opt out any more: %v %v", ok, err)
	}
	if left := s.of(to); len(left) != 1 {
		t.Errorf("%d suppressions are left", len(left))
	}
}

// TestSuppressionsAgainstAModel: however requests, restarts, aborts and the clock
// follow each other, a message is suppressed by exactly what a list of who said what
// until when has, and what is over does not stay in the ledger.
func TestSuppressionsAgainstAModel(t *testing.T) {
	type said struct {
		until schemas.Millis
		why   string
	}
	seen := make(map[string]int)
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 11))
		b := newBench(t)
		b.now -= b.now % endingHour // hours turn while it plays
		model := make(map[string]map[scope]said)
		stands := func(to string, sc scope, t schemas.Millis) (said, bool) {
			n, ok := model[to][sc]
			return n, ok && (n.until == 0 || t < n.until)
		}
		to := func() string { return fmt.Sprintf("+861380000000%d", r.IntN(3)) }
		draw := func() (sc scope) {
			sc.Tenant = []string{"", "default", "acme"}[r.IntN(3)]
			sc.Channel = []string{"", "sms"}[r.IntN(2)]
			sc.Class = []string{"", "free"}[r.IntN(2)]
			return sc
		}
		for range 120 {
			b.now += []schemas.Millis{0, 1, 1000, 700_000, endingHour}[r.IntN(5)]
			now := max(b.now, b.p.base.meta.T)
			switch r.IntN(7) {
			case 0, 1:
				whom, sc := to(), draw()
				n := said{why: []string{"", "stop", "hard_bounce"}[r.IntN(3)]}
				if r.IntN(4) > 0 {
					n.until = now + []schemas.Millis{0, 1, 1000, 800_000, endingHour, 5 * endingHour}[r.IntN(6)]
				}
				more := ""
				if n.until != 0 {
					more += fmt.Sprintf(`,"expires_at":%q`, n.until)
				}
				if n.why != "" {
					more += fmt.Sprintf(`,"metadata":{"reason":%q}`, n.why)
				}
				want := "decision suppress suppress"
				if old, ok := stands(whom, sc, now); ok && old == n {
					want = "decision nothing repeated"
				}
				if n.until == now {
					want = "decision reject expires_at_out_of_range > dlq"
				} else {
					if model[whom] == nil {
						model[whom] = make(map[scope]said)
					}
					model[whom][sc] = n
				}
				b.want(b.request(`{"action":"suppress","to":%q,"tenant":%q,"channel":%q,"class":%q%s}`, whom, sc.Tenant, sc.Channel, sc.Class, more), want)
				seen[want]++
			case 2:
				whom, sc := to(), draw()
				want := "decision nothing not_suppressed"
				if _, ok := stands(whom, sc, now); ok {
					want = "decision suppress unsuppress"
				}
				delete(model[whom], sc)
				b.want(b.request(`{"action":"unsuppress","to":%q,"tenant":%q,"channel":%q,"class":%q}`, whom, sc.Tenant, sc.Channel, sc.Class), want)
				seen[want]++
			case 3: // a transaction that does not come to its end
				b.p.begin()
				b.p.advance(b.now)
				whom := to()
				b.p.suppressed.add(whom, draw(), terms{Until: now + 1}, now)
				b.p.suppressed.remove(whom, draw(), now)
				if err := b.p.changes(func([]byte, []byte) {}, func(*seenRecord) {}); err != nil {
					t.Fatal(err)
				}
				b.p.rollback()
			case 4:
				b.restart()
			default:
				whom, tenant := to(), []string{"", "acme"}[r.IntN(2)]
				class := []string{"free", "other"}[r.IntN(2)]
				m := scope{Tenant: "default", Channel: "sms", Class: class}
				if tenant != "" {
					m.Tenant = tenant
				}
				until, covered := schemas.Millis(0), false
				for sc := range model[whom] {
					if n, ok := stands(whom, sc, now); ok && sc.covers(m) {
						if !covered || n.until == 0 || until != 0 && n.until > until {
							until = n.until
						}
						covered = true
					}
				}
				o := b.request(`{"channel":"sms","to":%q,"tenant":%q,"class":%q,"body":"x"}`, whom, tenant, class)
				if got := o.event.Status == schemas.StatusSuppressed; got != covered || got && o.event.RetryAt != until {
					t.Fatalf("seed %d: suppressed %v until %s, want %v until %s", seed, got, o.event.RetryAt, covered, until)
				}
				seen[fmt.Sprint("message ", covered, until != 0)]++
			}
		}
		now := b.p.base.meta.T
		for whom := range model {
			var want []schemas.Suppression
			for sc := range model[whom] {
				if n, ok := stands(whom, sc, now); ok && (sc.Tenant == "" || sc.Tenant == "acme") {
					want = append(want, schemas.Suppression{Tenant: sc.Tenant, Channel: sc.Channel, Class: sc.Class, Until: n.until, Reason: n.why})
				}
			}
			got := b.p.suppressed.told(whom, "acme", now)
			for i := range got {
				got[i].At = 0
			}
			order := func(a, b schemas.Suppression) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
			slices.SortFunc(got, order)
			slices.SortFunc(want, order)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("seed %d, %s: %s", seed, whom, d)
			}
		}
		// Whatever ends, ends in the ledger too, soon after its hour.
		b.now += 10 * endingHour
		b.want(b.request(`{"channel":"sms","to":"+8613800000009","class":"free","body":"x"}`), "queued admit > dispatch.one.normal")
		left := 0
		for _, of := range model {
			for _, n := range of {
				if n.until == 0 {
					left++
				}
			}
		}
		scopes := 0
		for _, r := range b.p.suppressed.base {
			scopes += len(r.Scopes)
		}
		if scopes != left || len(b.p.suppressed.endings.hours) != 0 {
			t.Fatalf("seed %d: %d scopes are left, and %d have no end; %d hours", seed, scopes, left, len(b.p.suppressed.endings.hours))
		}
	}
	for _, must := range []string{"decision suppress suppress", "decision nothing repeated", "decision suppress unsuppress", "decision nothing not_suppressed", "decision reject expires_at_out_of_range > dlq", "message true true", "message true false", "message false false"} {
		if seen[must] < 20 {
			t.Errorf("%q came %d times: %v", must, seen[must], seen)
		}
	}
}
