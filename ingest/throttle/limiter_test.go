package throttle

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

// parsed reads a policy, with a secret of its own for each key.
func parsed(t testing.TB, text string) *schemas.Policy {
	t.Helper()
	for i := 0; strings.Contains(text, hash); i++ {
		text = strings.Replace(text, hash, fmt.Sprintf(`hash: "sha256:%064x"`, i), 1)
	}
	doc, err := schemas.ParsePolicy("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &doc.Policy
}

const hash = "hash: anew"

const tiers = `
tenants:
  - {name: gold, rates: {write: bucket 300 refill 50/s, query: 1000/60s}}
  - {name: even, smooth: true}
keys:
  - {name: plain, tenant: default, scopes: [send], ` + hash + `}
  - {name: gold, tenant: gold, scopes: [send], ` + hash + `}
  - {name: gold-slow, tenant: gold, scopes: [send], rates: {write: 2/1s}, smooth: true, ` + hash + `}
  - {name: even, tenant: even, scopes: [send], ` + hash + `}
`

func TestWhoseRate(t *testing.T) {
	l := New(Config{Addresses: 64})
	l.SetPolicy(parsed(t, tiers), 1, 0)
	for _, tt := range []struct {
		key    string
		kind   Kind
		policy string
		smooth bool
	}{
		{"plain", Write, `"write";q=30;w=6`, false},
		{"plain", Query, `"query";q=100;w=10`, false},
		{"plain", Batch, `"batch";q=10;w=600`, false},
		{"plain", Import, `"import";q=10;w=600`, false},
		{"gold", Write, `"write";q=300;w=6`, false},
		{"gold", Query, `"query";q=1000;w=60`, false},
		{"gold", Batch, `"batch";q=10;w=600`, false},
		{"gold-slow", Write, `"write";q=2;w=1`, true},
		{"gold-slow", Query, `"query";q=167;w=11`, true}, // 1000/60s, of which nobody waits for more than 10 s
		{"even", Write, `"write";q=30;w=6`, true},
	} {
		v, ok := l.Key(tt.key, tt.kind, 0)
		if !ok || v.Rate.Policy() != tt.policy || v.Rate.smooth != tt.smooth || v.Rate.Kind() != tt.kind {
			t.Errorf("%s %s: %v %+v", tt.key, tt.kind, ok, v.Rate)
		}
	}
	if _, ok := l.Key("nobody", Write, 0); ok {
		t.Error("a key that is not there")
	}
}

func TestAddressesAreTenantDefaults(t *testing.T) {
	here, there := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")
	l := New(Config{Addresses: 64})
	for _, tt := range []struct {
		name, policy string
		addr         netip.Addr
		kind         Kind
		want         string // empty: no limit
	}{
		{"the default", "", there, Write, `"write";q=30;w=6`},
		{"none on this machine", "", here, Write, ""},
		{"none on this machine, written as IPv6", "", netip.MustParseAddr("::ffff:127.0.0.1"), Query, ""},
		{"none on this machine, IPv6", "", netip.MustParseAddr("::1"), Query, ""},
		{"wrong keys on this machine too", "", here, Login, `"login";q=5;w=900`},
		{"declared", "tenants: [{name: default, rates: {write: 7/1s}}]", there, Write, `"write";q=7;w=1`},
		{"declared, also on this machine", "tenants: [{name: default, rates: {write: 7/1s}}]", here, Write, `"write";q=7;w=1`},
		{"another kind was declared", "tenants: [{name: default, rates: {write: 7/1s}}]", here, Query, ""},
		{"another tenant's", "tenants: [{name: acme, rates: {write: 7/1s}}]", there, Write, `"write";q=30;w=6`},
		{"no address", "", netip.Addr{}, Write, `"write";q=30;w=6`},
	} {
		l.SetPolicy(parsed(t, tt.policy), 1, 0)
		v, ok := l.Address(tt.addr, tt.kind, 0)
		if ok != (tt.want != "") || ok && v.Rate.Policy() != tt.want {
			t.Errorf("%s: %v %+v, want %q", tt.name, ok, v, tt.want)
		}
	}
}

func TestWhoIsOneCaller(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
	} {
		l := New(Config{Addresses: 64})
		l.Address(netip.MustParseAddr(tt.a), Write, 0)
		v, _ := l.Address(netip.MustParseAddr(tt.b), Write, 0)
		if (v.Remaining == 28) != tt.same {
			t.Errorf("%s and %s: %d remain", tt.a, tt.b, v.Remaining)
		}
		if v, _ := l.Address(netip.MustParseAddr(tt.a), Query, 0); v.Remaining != 99 {
			t.Errorf("another kind: %d remain", v.Remaining)
		}
	}
}

// A new policy leaves what was used, also of those whose rate it changes.
func TestPolicyChanges(t *testing.T) {
	const one = `keys: [{name: a, tenant: default, scopes: [send], rates: {write: 3/60s}, ` + hash + `}, {name: b, tenant: default, scopes: [send], rates: {write: 3/60s}, ` + hash + `}]`
	const two = `keys: [{name: a, tenant: default, scopes: [read], rates: {write: 3/1m}, ` + hash + `}, {name: b, tenant: default, scopes: [send], rates: {write: 4/60s}, ` + hash + `}]
tenants: [{name: default, rates: {query: 3/60s}}]`
	l := New(Config{Addresses: 64})
	l.SetPolicy(parsed(t, one), 1, 0)
	there := netip.MustParseAddr("192.0.2.1")
	for _, key := range []string{"a", "b"} {
		l.Key(key, Write, 0)
	}
	l.Address(there, Write, 0)
	l.Address(there, Query, 0)
	l.SetPolicy(parsed(t, two), 1, 0)
	for _, tt := range []struct {
		who       string
		remaining int64
		take      func() (Verdict, bool)
	}{
		{"a kept its rate", 1, func() (Verdict, bool) { return l.Key("a", Write, 0) }},
		{"b has a new rate, one of 4", 2, func() (Verdict, bool) { return l.Key("b", Write, 0) }},
		{"the address kept its rate", 28, func() (Verdict, bool) { return l.Address(there, Write, 0) }},
		{"the address has a new rate, and had used some", 1, func() (Verdict, bool) { return l.Address(there, Query, 0) }},
	} {
		if v, ok := tt.take(); !ok || v.Remaining != tt.remaining {
			t.Errorf("%s: %d remain, want %d", tt.who, v.Remaining, tt.remaining)
		}
	}
}

func ipv4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// A million addresses take no more memory than as many as are remembered, and
// no key loses anything by them.
func TestAMillionAddresses(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		kind         Kind
		most         uint64 // bytes
	}{
		{"wrong keys", "", Login, 16 << 20},
		{"writes", "", Write, 16 << 20},
		{"writes in a large window", "tenants: [{name: default, rates: {write: 10000/1h}}]", Write, 24 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := New(Config{})
			l.SetPolicy(parsed(t, tt.policy+"\nkeys: [{name: plain, tenant: default, scopes: [send], rates: {write: bucket 30 refill 5/s}, "+hash+"}]"), 1, 0)
			base := heap()
			l.Key("plain", Write, 0)
			now := time.Duration(0)
			flood := func(from, n uint32, calls int) uint64 {
				for i := range n {
					now += time.Microsecond
					for range calls {
						l.Address(ipv4(1<<24+from+i), tt.kind, now)
					}
				}
				return heap() - base
			}
			full := flood(0, 2*DefaultAddresses, 6)
			after := flood(2*DefaultAddresses, 1_000_000, 1)
			t.Logf("%d addresses remembered: %d KiB after %d addresses, %d KiB after a million more", l.Addresses(), full>>10, 2*DefaultAddresses, after>>10)
			if n := l.Addresses(); n != DefaultAddresses {
				t.Errorf("%d addresses remembered, want %d", n, DefaultAddresses)
			}
			if after > full+full/20 || after > tt.most {
				t.Errorf("memory grew from %d to %d bytes; at most %d", full, after, tt.most)
			}
			if v, _ := l.Key("plain", Write, 0); v.Remaining != 28 {
				t.Errorf("the key has %d left, want 28", v.Remaining)
			}
		})
	}
}

// The times that windows keep are bounded too: who called longest ago is
// forgotten for one who calls a lot, whose window is exact all the same.
func TestTimesKeptAreBounded(t *testing.T) {
	for _, n := range []int{200, 10_000} {
		l := New(Config{Addresses: 1})
		l.SetPolicy(parsed(t, fmt.Sprintf("tenants: [{name: default, rates: {write: %d/1h}}]", n)), 1, 0)
		for who := range uint32(3 * ways) {
			for i := range n + 1 {
				if v, _ := l.Address(ipv4(1<<24+who), Write, 0); v.Allowed != (i < n) {
					t.Fatalf("address %d, call %d of %d: allowed %t", who, i, n, v.Allowed)
				}
			}
		}
		s, kept := &l.table.sets[0], 0
		for i := range s.slots {
			kept += len(s.slots[i].ring)
		}
		if kept != s.kept || kept > max(stamps, n) || kept < n {
			t.Errorf("%d times are kept, %d are thought to be, of at most %d", kept, s.kept, max(stamps, n))
		}
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Who is as if he had never called makes room first; then whose call is longest ago.
func TestWhoIsForgotten(t *testing.T) {
	l := New(Config{Addresses: 1}) // one set
	l.SetPolicy(parsed(t, "tenants: [{name: default, rates: {write: 1/10s, query: 1/100s}}]"), 1, 0)
	at := func(n uint32, kind Kind, s int) Verdict {
		v, _ := l.Address(ipv4(1<<24+n), kind, time.Duration(s)*time.Second)
		return v
	}
	for i := range uint32(ways) {
		kind := Query
		if i == 40 {
			kind = Write
		}
		at(i, kind, int(i)) // the first calls first
	}
	at(0, Query, 64) // a refused call keeps one in mind too
	at(100, Query, 65)
	at(101, Query, 65)
	if l.Addresses() != ways {
		t.Fatalf("%d addresses", l.Addresses())
	}
	// 40 was full again after 50 s and made room for 100; then 1 for 101, its call
	// being longest ago.
	for _, tt := range []struct {
		n    uint32
		kind Kind
		kept bool
	}{{0, Query, true}, {2, Query, true}, {39, Query, true}, {100, Query, true}, {101, Query, true}, {1, Query, false}} {
		if v := at(tt.n, tt.kind, 66); v.Allowed == tt.kept {
			t.Errorf("address %d: kept %t, want %t", tt.n, !v.Allowed, tt.kept)
		}
	}
}

// Many goroutines on the same callers let through exactly what is allowed.
func TestConcurrentCallsAreCounted(t *testing.T) {
	l := New(Config{})
	policy := parsed(t, `keys: [{name: a, tenant: default, scopes: [send], rates: {write: bucket 1000 refill 100/d, query: 1000/1d}, `+hash+`}]`)
	l.SetPolicy(policy, 1, 0)
	there := netip.MustParseAddr("192.0.2.1")
	var byBucket, byWindow, byAddress, busy atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				for _, c := range []struct {
					n *atomic.Int64
					f func() (Verdict, bool)
				}{
					{&byBucket, func() (Verdict, bool) { return l.Key("a", Write, time.Duration(i)) }},
					{&byWindow, func() (Verdict, bool) { return l.Key("a", Query, time.Duration(i)) }},
					{&byAddress, func() (Verdict, bool) { return l.Address(there, Write, time.Duration(i)) }},
				} {
					if v, ok := c.f(); ok && v.Allowed {
						c.n.Add(1)
					}
				}
				l.Address(ipv4(1<<24+uint32(i)), Login, 0)
				if i%100 == 0 {
					busy.Store(int64(len(l.Busiest(10, 0))))
					l.SetPolicy(&schemas.Policy{Keys: policy.Keys}, 1, 0)
				}
			}
		})
	}
	wg.Wait()
	if a, b, c := byBucket.Load(), byWindow.Load(), byAddress.Load(); a != 1000 || b != 1000 || c != 30 {
		t.Errorf("%d by the bucket, %d by the window, %d by the address; want 1000, 1000, 30", a, b, c)
	}
	if busy.Load() != 1 {
		t.Errorf("%d busy keys", busy.Load())
	}
}

func TestBusiest(t *testing.T) {
	var text string
	for i := range 20 {
		text += fmt.Sprintf("  - {name: k%02d, tenant: default, scopes: [send], %s}\n", i, hash)
	}
	l := New(Config{Addresses: 64})
	l.SetPolicy(parsed(t, "keys:\n"+text), 1, 0)
	call := func(key string, n int, at time.Duration) {
		for range n {
			l.Key(key, Query, at)
			l.Key(key, Write, at)
		}
	}
	for i := range 20 {
		call(fmt.Sprintf("k%02d", i), i, 0)
	}
	top := l.Busiest(3, time.Second)
	if want := []Busy{{"k19", 38}, {"k18", 36}, {"k17", 34}}; !slices.Equal(top, want) {
		t.Errorf("%v, want %v", top, want)
	}
	// Half of the next minute is over: half of the calls of the one before count.
	call("k01", 7, 80*time.Second)
	if top, want := l.Busiest(2, 90*time.Second), []Busy{{"k19", 19}, {"k18", 18}}; !slices.Equal(top, want) {
		t.Errorf("%v, want %v", top, want)
	}
	if top, want := l.Busiest(2, 130*time.Second), []Busy{{"k01", 11}}; !slices.Equal(top, want) {
		t.Errorf("%v, want %v", top, want)
	}
	if top := l.Busiest(2, 10*time.Minute); len(top) != 0 {
		t.Errorf("%v, want none", top)
	}
}

func TestDecisionsAllocateNothing(t *testing.T) {
	l := New(Config{})
	l.SetPolicy(parsed(t, tiers), 1, 0)
	now := time.Duration(0)
	for name, f := range map[string]func(){
		"key":     func() { l.Key("gold", Write, now) },
		"window":  func() { l.Key("gold", Query, now) },
		"address": func() { l.Address(netip.MustParseAddr("192.0.2.1"), Login, now) },
	} {
		for range 3000 {
			f() // the window's ring is as long as it becomes
		}
		if n := testing.AllocsPerRun(1000, func() { now += time.Millisecond; f() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkLimiter(b *testing.B) {
	var text string
	for i := range 1000 {
		text += fmt.Sprintf("  - {name: k%03d, tenant: default, scopes: [send], rates: {batch: 1000/1s}, %s}\n", i, hash)
	}
	policy := parsed(b, "keys:\n"+text)
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%03d", i)
	}
	began := time.Now()
	for _, bb := range []struct {
		name string
		f    func(l *Limiter, i int, now time.Duration)
	}{
		{"bucket of 1000 keys", func(l *Limiter, i int, now time.Duration) { l.Key(keys[i%1000], Write, now) }},
		{"window of 1000 keys", func(l *Limiter, i int, now time.Duration) { l.Key(keys[i%1000], Batch, now) }},
		{"one key of all", func(l *Limiter, i int, now time.Duration) { l.Key(keys[0], Write, now) }},
		{"60000 addresses", func(l *Limiter, i int, now time.Duration) { l.Address(ipv4(1<<24+uint32(i)*7919%60_000), Write, now) }},
		{"ever new addresses", func(l *Limiter, i int, now time.Duration) { l.Address(ipv4(1<<24+uint32(i)), Login, now) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			l := New(Config{})
			l.SetPolicy(policy, 1, 0)
			var from atomic.Int64
			for i := range 200_000 { // what is remembered is there
				bb.f(l, i, time.Since(began))
			}
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i := int(from.Add(1)) * 100_000_000
				for pb.Next() {
					i++
					bb.f(l, i, time.Since(began))
				}
			})
		})
	}
}

// TestProcessesShare: however many processes there are, and whichever a caller asks, they
// let through together what the rate says, and less than one call more for each.
func TestProcessesShare(t *testing.T) {
	pol := parsed(t, "tenants: [{name: acme}]\nkeys: [{name: k, tenant: acme, scopes: [send], rates: {write: bucket 30 refill 5/s, query: 100/10s}, "+hash+"}]")
	for _, processes := range []int{1, 2, 3, 7} {
		all := make([]*Limiter, processes)
		for i := range all {
			all[i] = New(Config{})
			all[i].SetPolicy(pol, processes, 0)
		}
		passed := func(kind Kind, at time.Duration) (n int) {
			for i := range 1000 {
				if v, _ := all[i%processes].Key("k", kind, at); v.Allowed {
					n++
				}
			}
			return n
		}
		for _, c := range []struct {
			kind Kind
			at   time.Duration
			want int
		}{{Write, 0, 30}, {Write, 2 * time.Second, 10}, {Query, 0, 100}, {Query, 9 * time.Second, 0}, {Query, 10 * time.Second, 100}} {
			if got := passed(c.kind, c.at); got < c.want-processes || got > c.want+processes-1 || processes == 1 && got != c.want {
				t.Errorf("%d processes: %d calls of kind %s passed at %v, want %d", processes, got, c.kind, c.at, c.want)
			}
		}
	}
}

// TestProcessComesAndGoes: what a caller has used stays used.
func TestProcessComesAndGoes(t *testing.T) {
	pol := parsed(t, "tenants: [{name: acme}]\nkeys: [{name: k, tenant: acme, scopes: [send], rates: {write: bucket 30 refill 5/s, query: 100/10s}, "+hash+"}]")
	l := New(Config{})
	l.SetPolicy(pol, 1, 0)
	ask := func(kind Kind, n int) (passed int) {
		for range n {
			if v, _ := l.Key("k", kind, 0); v.Allowed {
				passed++
			}
		}
		return passed
	}
	if got := ask(Write, 20) + ask(Query, 90); got != 110 {
		t.Fatal(got)
	}
	l.SetPolicy(pol, 2, 0) // a third of 15 is left of the bucket, and none of 50 of the window
	if w, q := ask(Write, 100), ask(Query, 100); w != 5 || q != 0 {
		t.Errorf("%d and %d", w, q)
	}
	l.SetPolicy(pol, 1, 0)
	if w, q := ask(Write, 100), ask(Query, 100); w != 0 || q != 10 { // of 100, 90 are used
		t.Errorf("%d and %d", w, q)
	}
}

// TestKeysOfATenantTogether: a call has to pass its key's rate and its tenant's total, and
// costs neither where one of them refuses it.
func TestKeysOfATenantTogether(t *testing.T) {
	key := func(name, rates string) string {
		return "  - {name: " + name + ", tenant: acme, scopes: [send], rates: " + rates + ", " + hash + "}\n"
	}
	text := "tenants: [{name: acme, total_rates: {write: %s}}, {name: other}]\nkeys:\n" + key("a", "{write: 8/10s}") + key("b", "{write: 8/10s}") + strings.Replace(key("c", "{write: 8/10s}"), "acme", "other", 1)
	for _, total := range []string{"10/10s", "bucket 10 refill 1/h"} {
		l := New(Config{})
		l.SetPolicy(parsed(t, fmt.Sprintf(text, total)), 1, 0)
		for i, c := range []struct {
			key       string
			allowed   bool
			remaining int64
			together  bool
		}{
			{"a", true, 7, false}, {"a", true, 6, false}, {"a", true, 5, false}, {"a", true, 4, false}, {"a", true, 3, false},
			{"b", true, 4, true}, {"b", true, 3, true}, {"b", true, 2, true}, {"b", true, 1, true}, {"b", true, 0, true},
			{"b", false, 0, true}, {"a", false, 0, true}, {"c", true, 7, false},
		} {
			v, _ := l.Key(c.key, Write, 0)
			if v.Allowed != c.allowed || v.Remaining != c.remaining || v.Together != c.together {
				t.Errorf("%s: call %d of %s: %+v", total, i, c.key, v)
			}
		}
		if v, _ := l.Key("a", Query, 0); !v.Allowed || v.Together { // it has no total
			t.Errorf("%+v", v)
		}
	}
	// What the total refused, the key has not used up.
	l := New(Config{})
	l.SetPolicy(parsed(t, fmt.Sprintf(text, "bucket 10 refill 1/s")), 1, 0)
	for range 8 {
		l.Key("b", Write, 0)
		l.Key("a", Write, 0)
	}
	for i := range 3 {
		if v, _ := l.Key("a", Write, 3*time.Second); !v.Allowed {
			t.Errorf("call %d: %+v", i, v)
		}
	}
}

// TestChangedRate: what a caller has used stays used when its rate is changed, at a key,
// at all keys of a tenant and at an address, as often as it is changed.
func TestChangedRate(t *testing.T) {
	type step struct {
		rate string
		at   time.Duration
		want int // calls that pass of 2000
	}
	for name, steps := range map[string][]step{
		"a bucket grows a little":            {{"bucket 30 refill 1/h", 0, 30}, {"bucket 31 refill 1/h", 0, 0}, {"bucket 30 refill 1/h", 0, 0}, {"bucket 31 refill 1/h", 0, 0}},
		"a larger bucket is as empty":        {{"bucket 1 refill 1/h", 0, 1}, {"bucket 700 refill 1/h", 0, 0}, {"bucket 700 refill 1/h", time.Hour, 1}},
		"it fills as it was":                 {{"bucket 30 refill 5/s", 0, 30}, {"bucket 30 refill 1/h", 3 * time.Second, 15}, {"bucket 30 refill 5/s", time.Minute, 0}},
		"it was full again":                  {{"bucket 30 refill 5/s", 0, 30}, {"bucket 40 refill 1/h", 6 * time.Second, 40}},
		"a window grows by what is new":      {{"10/1h", 0, 10}, {"20/1h", 0, 10}, {"20/1h", time.Hour, 20}},
		"a window that is small for a while": {{"1000/1h", 0, 1000}, {"1/1h", 0, 0}, {"1000/1h", 0, 0}, {"3/1h", time.Hour, 3}},
		"a smaller window":                   {{"10/1h", 0, 10}, {"4/1h", time.Minute, 0}, {"4/1h", time.Hour, 4}},
		"a shorter window":                   {{"10/1h", 0, 10}, {"10/1m", time.Minute, 10}},
		"from a bucket to a window":          {{"bucket 30 refill 1/h", 0, 30}, {"60/1h", 0, 0}, {"60/1h", time.Hour, 60}},
		"from a window to a bucket":          {{"60/1h", 0, 60}, {"bucket 30 refill 1/m", 0, 0}, {"bucket 30 refill 1/m", 10 * time.Minute, 10}},
	} {
		here := netip.MustParseAddr("192.0.2.1")
		for who, of := range map[string]struct {
			policy string
			call   func(l *Limiter, at time.Duration) (Verdict, bool)
		}{
			"key":     {"tenants: [{name: acme}]\nkeys: [{name: k, tenant: acme, scopes: [send], rates: {write: %s}, " + hash + "}]", func(l *Limiter, at time.Duration) (Verdict, bool) { return l.Key("k", Write, at) }},
			"total":   {"tenants: [{name: acme, total_rates: {write: %s}}]\nkeys: [{name: k, tenant: acme, scopes: [send], rates: {write: bucket 100000 refill 1000/s}, " + hash + "}]", func(l *Limiter, at time.Duration) (Verdict, bool) { return l.Key("k", Write, at) }},
			"address": {"tenants: [{name: default, rates: {write: %s}}]", func(l *Limiter, at time.Duration) (Verdict, bool) { return l.Address(here, Write, at) }},
		} {
			l := New(Config{Addresses: 64})
			for i, s := range steps {
				l.SetPolicy(parsed(t, fmt.Sprintf(of.policy, s.rate)), 1, s.at)
				passed := 0
				for range 2000 {
					if v, _ := of.call(l, s.at); v.Allowed {
						passed++
					} else if v.Remaining != 0 || v.Reset <= 0 {
						t.Fatalf("%s, %s, step %d: refused with %+v", name, who, i, v)
					}
				}
				if passed != s.want {
					t.Errorf("%s, %s, step %d, %s at %v: %d passed, want %d", name, who, i, s.rate, s.at, passed, s.want)
				}
			}
		}
	}
}

// Half of what is used is half, whatever the size.
func TestChangedRateKeepsTheShare(t *testing.T) {
	for _, tt := range []struct {
		from string
		used int
		to   string
		want int64 // left, after one call more
	}{
		{"bucket 30 refill 1/h", 15, "bucket 60 refill 1/h", 29}, {"bucket 60 refill 1/h", 30, "bucket 30 refill 1/h", 14},
		{"bucket 10 refill 1/h", 5, "20/1h", 9}, {"20/1h", 10, "bucket 10 refill 1/h", 4},
		{"10/1h", 4, "20/1h", 15}, {"20/1h", 4, "10/1h", 5},
	} {
		const policy = "keys: [{name: k, tenant: default, scopes: [send], rates: {write: %s}, " + hash + "}]"
		l := New(Config{Addresses: 64})
		l.SetPolicy(parsed(t, fmt.Sprintf(policy, tt.from)), 1, 0)
		for range tt.used {
			l.Key("k", Write, 0)
		}
		l.SetPolicy(parsed(t, fmt.Sprintf(policy, tt.to)), 1, 0)
		if v, _ := l.Key("k", Write, 0); !v.Allowed || v.Remaining != tt.want {
			t.Errorf("%d of %s, then %s: %+v, want %d left", tt.used, tt.from, tt.to, v, tt.want)
		}
	}
}

// TestGiveBack: a call that is given back is as if it had not been made, and its time with it.
func TestGiveBack(t *testing.T) {
	here := netip.MustParseAddr("192.0.2.1")
	for _, rate := range []string{"3/10s", "bucket 3 refill 3/10s"} {
		const text = `tenants: [{name: acme, total_rates: {write: %[1]s}}, {name: default, rates: {write: %[1]s}}]
keys: [{name: own, tenant: default, scopes: [send], rates: {write: %[1]s}, ` + hash + `}, {name: total, tenant: acme, scopes: [send], rates: {write: 100/10s}, ` + hash + `}]`
		l := New(Config{Addresses: 64})
		l.SetPolicy(parsed(t, fmt.Sprintf(text, rate)), 1, 0)
		key := func(name string) (func(time.Duration) Verdict, func(Verdict, time.Duration) (Verdict, bool)) {
			return func(at time.Duration) Verdict { v, _ := l.Key(name, Write, at); return v },
				func(v Verdict, at time.Duration) (Verdict, bool) { return l.GiveBack(name, v, at) }
		}
		check := func(who string, call func(time.Duration) Verdict, back func(Verdict, time.Duration) (Verdict, bool)) {
			t.Helper()
			at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
			call(at(0))
			second := call(at(1))
			call(at(2))
			if v := call(at(3)); v.Allowed {
				t.Errorf("%s, %s: a fourth: %+v", rate, who, v)
			}
			if left, ok := back(second, at(4)); !ok || left.Remaining != 1 || left.Rate.Limit() != 3 {
				t.Errorf("%s, %s: given back: %t %+v", rate, who, ok, left)
			}
			if v := call(at(5)); !v.Allowed || v.Remaining != 0 {
				t.Errorf("%s, %s: in its place: %+v", rate, who, v)
			}
			if v := call(at(6)); v.Allowed {
				t.Errorf("%s, %s: one more: %+v", rate, who, v)
			}
			if rate == "3/10s" { // those of 0 and 2 ms have left, that of 5 ms has not
				if v := call(at(10_004)); !v.Allowed || v.Remaining != 1 {
					t.Errorf("%s, %s: later: %+v", rate, who, v)
				}
			}
			if left, _ := back(second, at(40_000)); left.Remaining != 3 {
				t.Errorf("%s, %s: of a call that is long gone: %+v", rate, who, left)
			}
		}
		call, back := key("own")
		check("a key", call, back)
		call, back = key("total")
		check("a tenant", call, back)
		check("an address", func(at time.Duration) Verdict { v, _ := l.Address(here, Write, at); return v }, func(v Verdict, at time.Duration) (Verdict, bool) { return l.GiveBackAddress(here, v, at) })
		v, _ := l.Key("own", Write, 0)
		l.SetPolicy(&schemas.Policy{}, 1, 0)
		if _, ok := l.GiveBack("own", v, 0); ok {
			t.Error("of a key that is gone")
		}
		if _, ok := l.GiveBackAddress(netip.MustParseAddr("192.0.2.2"), v, 0); ok {
			t.Error("of an address that is forgotten")
		}
	}
}
