package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// arrival is one call as the provider's server saw it.
type arrival struct {
	at      time.Time
	key     string // Idempotency-Key
	to      string
	attempt int
}

// ear is a provider's server on loopback that writes down every call as it
// arrives, and answers after a while.
type ear struct {
	*httptest.Server
	mu    sync.Mutex
	heard []arrival
	bad   int
}

func newEar(t *testing.T, least, most time.Duration) *ear {
	e := &ear{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := arrival{at: time.Now(), key: r.Header.Get("Idempotency-Key")}
		var body struct {
			ID, To  string
			Attempt int
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		a.to, a.attempt = body.To, body.Attempt
		e.mu.Lock()
		e.heard = append(e.heard, a)
		if err != nil || body.ID != a.key || a.key == "" || a.attempt < 1 {
			e.bad++
		}
		e.mu.Unlock()
		if most > 0 {
			<-time.After(least + rand.N(most-least+1))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"ear-%s"}`, a.key)
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *ear) record(t *testing.T) []arrival {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bad > 0 {
		t.Errorf("%d calls arrived without an id, an attempt, or the id as Idempotency-Key", e.bad)
	}
	return slices.Clone(e.heard)
}

func (e *ear) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.heard)
}

// byMessage is how often each message arrived.
func byMessage(heard []arrival) map[string]int {
	out := make(map[string]int)
	for _, a := range heard {
		out[a.key]++
	}
	return out
}

// backlog produces n requests to different recipients, with classes in turn.
func (s *site) backlog(from, n int, classes ...string) []Offset {
	s.t.Helper()
	p, err := NewProducer(s.brokers, s.names, Murmur2)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := from; i < from+n; i++ {
		q := schemas.Request{Channel: schemas.ChannelSMS, To: fmt.Sprintf("+86139%08d", i), Class: classes[i%len(classes)], Body: "x"}
		p.Send(s.t.Context(), &q, q.To)
	}
	at, err := p.Close(s.t.Context())
	if err != nil || len(at) != n {
		s.t.Fatalf("%d of %d requests acknowledged: %v", len(at), n, err)
	}
	return at
}

func (s *site) permits(provider string) []*Permit {
	s.t.Helper()
	got, err := Permits(s.t.Context(), s.brokers, s.names, provider)
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// crew are workers that take turns as owners of lanes.
type crew struct {
	*site
	workers []*Process
}

var (
	restored = regexp.MustCompile(`time=(\S+) .*lanes restored.* provider=(\S+) .*by=(\S+)`)
	wrote    = regexp.MustCompile(` by=(\S+)`)
)

// owner returns the slot of the worker that calls, and the name it writes under:
// that of the lane's last transaction, which Kafka lets nobody but its owner
// commit. What the logs say last is no answer: a worker that joins may take the
// lane from one that is well and lose it again before it has done anything, and
// that is no line in the log of the one that goes on.
func (c *crew) owner(provider string) (slot int, name string) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	stood, err := kadm.NewClient(cl).FetchOffsets(ctx, c.names.Journal(provider)+".lane")
	if err != nil {
		return -1, "" // not yet
	}
	o, _ := stood.Lookup(c.names.Dispatch(provider, topics.QueueUrgent), 0)
	m := wrote.FindStringSubmatch(o.Metadata)
	if m == nil {
		return -1, ""
	}
	for i, w := range c.workers {
		for _, r := range restored.FindAllStringSubmatch(w.Output(), -1) {
			if r[3] == m[1] {
				return i, m[1]
			}
		}
	}
	return -1, m[1]
}

// taken waits until another than before owns the lane and calls.
func (c *crew) taken(provider, before string, e *ear) {
	c.t.Helper()
	var slot int
	var name string
	if !poll(c.t, time.Minute, func() bool { slot, name = c.owner(provider); return slot >= 0 && name != before }) {
		c.diagnose()
		c.t.Fatalf("nobody took up the lane of %s within a minute: it was %q's, and is %q's", provider, before, name)
	}
	at := e.count()
	if !poll(c.t, time.Minute, func() bool { return e.count() > at }) {
		c.diagnose()
		c.t.Fatalf("no call of %s within a minute of a takeover", provider)
	}
}

// restores are the moments when any worker took up a provider's lane, in order.
func (c *crew) restores(provider string) (at []schemas.Millis) {
	c.t.Helper()
	for _, w := range c.workers {
		for _, m := range restored.FindAllStringSubmatch(w.Output(), -1) {
			t, err := time.Parse(time.RFC3339Nano, m[1])
			if err != nil {
				c.t.Fatal(err)
			}
			if m[2] == provider {
				at = append(at, schemas.MillisOf(t))
			}
		}
	}
	slices.Sort(at)
	return at
}

const lanePacePolicy = `
classes:
  - {name: bulk, priority: bulk, stale_after: 24h, retries: [1s, 1s, 1s, 1s]}
providers:
  - {name: ear, type: http, channels: [sms], timeout: 5s, concurrency: 512, pace: [%s], settings: {url: %q}}
tenants:
  - {name: default, default_region: CN}
`

// lanePace lets a lane with a long backlog lose its owner again and again: by
// kill -9, and in good order. No window of the pace may ever hold more permits
// than it says, whoever gave them, and between the takeovers the pace is used.
func lanePace(t *testing.T, brokers []string, kills, moves int, pace string, each time.Duration) string {
	windows := make([]schemas.Window, 0, 3)
	for text := range strings.SplitSeq(pace, ",") {
		w, err := schemas.ParseWindow(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		windows = append(windows, w)
	}
	e := newEar(t, 2*time.Millisecond, 30*time.Millisecond)
	c := &crew{site: newSite(t, brokers, "pace", fmt.Sprintf(lanePacePolicy, pace, e.URL)), workers: make([]*Process, 2)}
	c.backlog(0, int(windows[0].N)*int((time.Duration(kills+moves+2)*(each+15*time.Second))/windows[0].Length), "bulk")
	for i := range c.workers {
		c.workers[i] = c.run(i, roles)
	}
	c.taken("ear", "", e)
	c.stable(len(c.workers))
	var faults []schemas.Millis
	var kinds []string
	fault := func(kind string) {
		faults, kinds = append(faults, schemas.MillisOf(time.Now())), append(kinds, kind)
	}
	moved := 0
	for i := range kills + moves {
		<-time.After(each)
		// Only while the lane calls: in a pause of the pace nothing would be shown.
		at := e.count()
		poll(t, 40*time.Second, func() bool { return e.count() > at })
		owner, before := c.owner("ear")
		if owner < 0 {
			t.Fatalf("nobody owns the lane: %q wrote last", before)
		}
		if moved < moves && i%3 == 1 {
			moved++
			fault("leave")
			if err := c.workers[owner].Stop(patience); err != nil {
				t.Error(err)
			}
		} else {
			fault("kill")
			c.workers[owner].Kill()
		}
		c.taken("ear", before, e)
		fault("join")
		c.workers[owner] = c.run(owner, roles)
		c.stable(len(c.workers))
	}
	<-time.After(each)
	last := schemas.MillisOf(time.Now().Add(-500 * time.Millisecond))
	c.stop(c.workers...)

	permits := c.permits("ear")
	times := sortedTimes(permits)
	for _, w := range windows {
		if got := densest(times, w.Length); int64(got) > w.N {
			t.Errorf("%d permits in a window of %v: the pace is %d", got, w.Length, w.N)
		}
	}
	// A takeover is from the last permit before the lane was taken up, or from the
	// kill, to the first after.
	var outages []outage
	lengths := map[string][]string{}
	for _, at := range c.restores("ear") {
		next, _ := slices.BinarySearch(times, at)
		f, _ := slices.BinarySearch(faults, at)
		if next == 0 || next >= len(times) {
			continue // the first owner, or none that was needed
		}
		from, kind := times[next-1], "join" // as the second did at the start
		if f > 0 {
			if kind = kinds[f-1]; kind == "kill" {
				from = max(from, faults[f-1])
			}
		}
		if n := len(outages); n > 0 && outages[n-1].to == times[next] {
			continue // taken up twice with no permit between
		}
		outages = append(outages, outage{from, times[next]})
		lengths[kind] = append(lengths[kind], fmt.Sprintf("%.1f", times[next].Sub(from).Seconds()))
	}
	made := 0
	for _, at := range times {
		if at <= last {
			made++
		}
	}
	could := ideal(windows, times[0], last, outages)
	used := 100 * float64(made) / float64(could)
	heard := e.record(t)
	slices.SortFunc(heard, func(a, b arrival) int { return a.at.Compare(b.at) })
	arrivals := make([]schemas.Millis, len(heard))
	for i, a := range heard {
		arrivals[i] = schemas.MillisOf(a.at)
	}
	var dense []string
	for _, w := range windows {
		dense = append(dense, fmt.Sprintf("%v: %d permits, %d arrivals, of %d", w.Length, densest(times, w.Length), densest(arrivals, w.Length), w.N))
	}
	inDoubt := 0
	for _, p := range permits {
		if p.Code == "in_doubt" {
			inDoubt++
		}
	}
	// One fault more or less is no measure; neither is a window shorter than a busy
	// machine lets a process wait for a core.
	if used < 98 && kills != 1 && windows[0].Length >= 300*time.Millisecond {
		t.Errorf("%.1f %% of the pace was used", used)
	}
	if out, err := c.try("audit"); err != nil {
		t.Errorf("the audit: %v\n%s", err, out)
	}
	line := fmt.Sprintf("pace [%s], %d kill -9 and %d moves of the owner: densest windows %s; %d permits (%d in doubt), %d arrivals, %s; %.1f %% of the pace used",
		pace, kills, moves, strings.Join(dense, "; "), len(permits), inDoubt, len(arrivals), punctual(t, permits, heard), used)
	if len(outages) > 0 {
		line += fmt.Sprintf(", takeovers aside: %s s after a kill, %s s when the owner leaves, %s s when a worker joins",
			strings.Join(lengths["kill"], " "), strings.Join(lengths["leave"], " "), strings.Join(lengths["join"], " "))
	}
	return line
}

// punctual compares the provider's own record with the journal: every call has
// a permit of its own, and none comes before the moment that it names.
func punctual(t *testing.T, permits []*Permit, heard []arrival) string {
	t.Helper()
	type attempt struct {
		id string
		n  int
	}
	named := make(map[attempt][]schemas.Millis) // a permit that was never used is followed by another of the same attempt
	for _, p := range permits {
		if p.Outcome != "expired_permit" {
			named[attempt{p.ID, p.Attempt}] = append(named[attempt{p.ID, p.Attempt}], p.T)
		}
	}
	var after []time.Duration
	for _, a := range heard {
		at := named[attempt{a.key, a.attempt}]
		if len(at) != 1 {
			t.Errorf("attempt %d of %s arrived, and has %d permits", a.attempt, a.key, len(at))
			continue
		}
		d := a.at.Sub(at[0].Time())
		if d < 0 {
			t.Errorf("attempt %d of %s arrived %v before the moment of its permit", a.attempt, a.key, -d)
		}
		after = append(after, d)
	}
	if len(after) == 0 {
		t.Fatal("nothing arrived")
	}
	slices.Sort(after)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("each after the moment of its permit by p50 %.1f, p99 %.1f, at most %.1f ms", ms(after[len(after)/2]), ms(after[len(after)*99/100]), ms(after[len(after)-1]))
}

const laneKillsPolicy = `
limits:
  - {name: ten, per: [recipient], allow: [10/1h]}
classes:
  - {name: hold, on_unknown: hold, stale_after: 24h, retries: [1s, 1s, 1s, 1s, 1s, 1s]}
  - {name: resend, on_unknown: resend, stale_after: 24h, retries: [1s, 1s, 1s, 1s, 1s, 1s]}
providers:
  - {name: ear, type: http, channels: [sms], timeout: 5s, concurrency: 256, pace: [%d/1s], smooth: true, settings: {url: %q}}
tenants:
  - {name: default, default_region: CN}
`

// laneKills kills the owner of a lane at random moments while messages of the classes hold
// and resend are under way. Each must end once; what holds is never called
// twice; what is resent, only after a permit whose outcome nobody knows, and
// under the same key.
func laneKills(t *testing.T, brokers []string, n, kills int, within time.Duration) string {
	chance := rand.New(rand.NewPCG(seedOf(t), 3))
	e := newEar(t, 20*time.Millisecond, 50*time.Millisecond)
	// So many a second that some are left to the last kill; evenly, so that calls
	// are under way at every moment.
	perSecond := n / (6 * kills)
	c := &crew{site: newSite(t, brokers, "kills", fmt.Sprintf(laneKillsPolicy, perSecond, e.URL)), workers: make([]*Process, 2)}
	var mu sync.Mutex
	class := map[string]string{}
	trail := c.follow(func(r Record) {
		if r.Event.Class != "" {
			mu.Lock()
			class[r.Event.MessageID] = r.Event.Class
			mu.Unlock()
		}
	})
	for i := range c.workers {
		c.workers[i] = c.run(i, roles)
	}
	requests := c.backlog(0, n, "hold", "resend")
	c.taken("ear", "", e)
	began := time.Now()
	var under []string
	for range kills {
		// Random moments while calls are under way: between two owners a kill would
		// show nothing.
		<-time.After(time.Second + time.Duration(chance.Int64N(int64(4*time.Second))))
		owner, before := c.owner("ear")
		if owner < 0 {
			t.Fatalf("nobody owns the lane: %q wrote last", before)
		}
		c.workers[owner].Kill()
		under = append(under, fmt.Sprint(e.count()))
		c.workers[owner] = c.run(owner, roles)
		c.taken("ear", before, e)
	}
	killed := time.Since(began)
	c.settle(trail, requests, within-killed)
	took := time.Since(began)
	c.stop(c.workers...)

	all := e.record(t)
	calls := map[string]map[string]int{"ear": byMessage(all)}
	keys := map[string]map[string]bool{} // by recipient
	repeats, times := 0, map[string][]int{}
	for _, a := range all {
		if keys[a.to] == nil {
			keys[a.to] = map[string]bool{}
		}
		keys[a.to][a.key] = true
		if slices.Contains(times[a.key], a.attempt) {
			t.Errorf("attempt %d of %s arrived twice", a.attempt, a.key)
		}
		times[a.key] = append(times[a.key], a.attempt)
	}
	for to, k := range keys {
		if len(k) != 1 {
			t.Errorf("a message to %s arrived under %d keys", to[:6], len(k))
		}
	}
	type story struct {
		permits int
		known   []string // outcomes of permits after which it was permitted again
		inDoubt int
	}
	stories := map[string]*story{}
	permits, inDoubt, open := 0, 0, 0
	last := map[string]*Permit{}
	for _, p := range c.permits("ear") {
		permits++
		s := stories[p.ID]
		if s == nil {
			s = &story{}
			stories[p.ID] = s
		}
		if before := last[p.ID]; before != nil && before.Outcome != "unknown" && before.Outcome != "expired_permit" {
			s.known = append(s.known, before.Outcome+" "+before.Code)
		}
		last[p.ID] = p
		s.permits++
		switch {
		case p.Outcome == "":
			open++
		case p.Code == "in_doubt":
			inDoubt++
			s.inDoubt++
		}
	}
	mu.Lock()
	defer mu.Unlock()
	ends := map[string]int{}
	o, report := c.judge(requests, calls)
	for _, at := range requests {
		id, end, ok := o.Ended(at)
		if !ok {
			continue // the report has it
		}
		ends[class[id]+" "+string(end)]++
	}
	twice := 0
	for id, got := range times {
		s := stories[id]
		switch {
		case s == nil || len(got) > s.permits:
			t.Errorf("%s arrived %d times, with fewer permits", id, len(got))
		case len(got) < 2:
		case class[id] == "hold":
			twice++
			t.Errorf("%s, of class hold, arrived %d times", id, len(got))
		default:
			repeats += len(got) - 1
			if len(s.known) > 0 || s.inDoubt == 0 {
				t.Errorf("%s arrived %d times, and the journal knows what came of a call before: %v", id, len(got), s.known)
			}
		}
	}
	if !report.OK() {
		t.Errorf("the log does not hold what it promises: %s", report)
	}
	if open > 0 {
		t.Errorf("%d permits have no outcome after all has ended", open)
	}
	if kills > 4 && (inDoubt == 0 || repeats == 0) {
		t.Errorf("%d in doubt, %d repeats: the kills hit nothing", inDoubt, repeats)
	}
	out, err := c.try("audit")
	if err != nil || !strings.Contains(strings.ToLower(out), "proven") {
		t.Errorf("the audit: %v\n%s", err, out)
	}
	return fmt.Sprintf("%d messages, %d kill -9 of the lane's owner at random moments (after %s calls): lost %d; hold called twice %d; %d calls in doubt, %d repeats of resend, each after one in doubt and under the same key; %d permits, %d arrivals, ends %v; audit proven; %.0f s",
		n, kills, strings.Join(under, " "), report.Faults[FaultLost], twice, inDoubt, repeats, permits, len(all), ends, took.Seconds())
}

const lanePriorityPolicy = `
classes:
  - {name: mail, priority: bulk, stale_after: 24h}
  - {name: code, priority: urgent, stale_after: 24h}
providers:
  - {name: ear, type: http, channels: [sms], timeout: 5s, concurrency: 64, pace: [%s], settings: {url: %q}}
tenants:
  - {name: default, default_region: CN}
`

// lanePriorities fills the bulk queue and then sends urgent messages one by one:
// how many others are permitted between the moment its record can be read and its
// own permit? And how long until the provider hears of it?
// Then urgent ones without end: bulk keeps one permit of ten.
func lanePriorities(t *testing.T, brokers []string, n, urgent int, pace string) string {
	e := newEar(t, 2*time.Millisecond, 10*time.Millisecond)
	s := newSite(t, brokers, "prio", fmt.Sprintf(lanePriorityPolicy, pace, e.URL))
	s.backlog(0, n, "mail")
	admission := s.run(1, "admission,delay")
	bulkTopic, urgentTopic := s.names.Dispatch("ear", topics.QueueBulk), s.names.Dispatch("ear", topics.QueueUrgent)
	bulkCount, urgentCount := s.counts(bulkTopic), s.counts(urgentTopic)
	if !poll(t, time.Minute+time.Duration(n)*200*time.Microsecond, func() bool { return bulkCount() == n }) {
		t.Fatalf("the bulk queue has %d of %d", bulkCount(), n)
	}
	worker := s.run(0, "lanes")
	if !poll(t, 30*time.Second, func() bool { return e.count() > 120 }) {
		t.Fatal("no call arrives")
	}
	seen := s.watch(urgentTopic)
	for i := range urgent {
		s.backlog(50_000_000+i, 1, "code")
		<-time.After(time.Duration(50+rand.IntN(150)) * time.Millisecond)
	}
	if !poll(t, 20*time.Second, func() bool { return urgentCount() == urgent }) {
		t.Fatal("the urgent ones are not dispatched")
	}
	single := seen()
	if len(single) != urgent {
		t.Fatalf("%d of %d urgent ones were seen", len(single), urgent)
	}
	// A flood of urgent ones: more than the lane calls meanwhile.
	const flood = 1500
	s.backlog(60_000_000, flood, "code")
	if !poll(t, 20*time.Second, func() bool { return urgentCount() == urgent+flood }) {
		t.Fatal("the flood is not dispatched")
	}
	flooded := schemas.MillisOf(time.Now())
	at := e.count()
	if !poll(t, 40*time.Second, func() bool { return e.count() > at+500 }) {
		t.Errorf("%d calls in 40 s of the flood", e.count()-at)
	}
	until := schemas.MillisOf(time.Now())
	s.stop(worker, admission)

	permits := s.permits("ear")
	heard := map[string]schemas.Millis{}
	for _, a := range e.record(t) {
		heard[a.key] = schemas.MillisOf(a.at)
	}
	var between []int
	var waits []time.Duration
	bulk, all := 0, 0
	for i, p := range permits {
		if p.Queue == urgentTopic {
			if came, ok := single[p.At]; ok {
				others := 0
				for j := i - 1; j >= 0 && permits[j].T > came; j-- {
					if permits[j].T < p.T { // what is called at the same moment keeps nobody waiting
						others++
					}
				}
				between, waits = append(between, others), append(waits, heard[p.ID].Sub(came))
			}
		}
		if p.T > flooded && p.T < until {
			all++
			if p.Queue == bulkTopic {
				bulk++
			}
		}
	}
	if len(between) != urgent {
		t.Fatalf("%d of %d urgent messages have a permit", len(between), urgent)
	}
	slices.Sort(between)
	slices.Sort(waits)
	share := float64(bulk) / float64(max(all, 1))
	if share < 0.095 || share > 0.25 {
		t.Errorf("bulk had %d of %d permits while urgent ones waited", bulk, all)
	}
	if most := between[len(between)*9/10]; most > 1 {
		t.Errorf("%d others were called between an urgent message and its permit: %v", most, between)
	}
	return fmt.Sprintf("%d bulk messages wait, pace [%s]: between the moment an urgent one can be read and its permit p50 %d, p90 %d, at most %d moments of other permits (%d messages; the provider hears it after p50 %v, p90 %v, at most %v); with urgent ones without end bulk has %d of %d permits, %.1f %%",
		n, pace, between[len(between)/2], between[len(between)*9/10], between[len(between)-1], len(between), waits[len(waits)/2], waits[len(waits)*9/10], waits[len(waits)-1], bulk, all, 100*share)
}

// counts follows a topic and returns what says how many committed records it has
// by now.
func (s *site) counts(topic string) func() int {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Fatal(err)
	}
	var n atomic.Int64
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			n.Add(int64(cl.PollFetches(ctx).NumRecords()))
		}
	}()
	s.t.Cleanup(func() { cancel(); <-done; cl.Close() })
	return func() int { return int(n.Load()) }
}

// watch reads a topic of one partition as a lane does, and returns what stops it
// and says when each record could be read: after its transaction.
func (s *site) watch(topic string) (stop func() map[int64]schemas.Millis) {
	s.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.brokers...), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Fatal(err)
	}
	out, done := make(map[int64]schemas.Millis), make(chan struct{})
	ctx, cancel := context.WithCancel(s.t.Context())
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fetches := cl.PollFetches(ctx)
			now := schemas.MillisOf(time.Now())
			fetches.EachRecord(func(r *kgo.Record) { out[r.Offset] = now })
		}
	}()
	return func() map[int64]schemas.Millis { <-time.After(time.Second); cancel(); <-done; cl.Close(); return out }
}

const laneThroughputPolicy = `
classes:
  - {name: notice, stale_after: 24h}
providers:
  - {name: far, type: simulated, channels: [sms], timeout: 5s, concurrency: 512, settings: {latency: 200ms-200ms}}
tenants:
  - {name: default, default_region: CN}
`

// laneThroughput is what one lane of a real worker does with a provider of 200
// ms at concurrency 512, and what memory it takes.
func laneThroughput(t *testing.T, brokers []string, n int) (string, float64) {
	s := newSite(t, brokers, "through", laneThroughputPolicy)
	s.backlog(0, n, "notice")
	admission := s.run(1, "admission")
	topic := s.names.Dispatch("far", topics.QueueNormal)
	if !poll(t, 60*time.Second, func() bool {
		at, err := Committed(t.Context(), brokers, topic)
		return err == nil && len(at) == n
	}) {
		t.Fatal("not all are admitted")
	}
	s.stop(admission)
	worker := s.run(0, "lanes")
	if !poll(t, 60*time.Second, func() bool { permits, open := s.journal("far"); return permits == n && open == 0 }) {
		t.Fatal("not all are called")
	}
	peak := peakMemory(t, worker.PID())
	s.stop(worker)
	times := sortedTimes(s.permits("far"))
	rate := float64(n-1) / times[n-1].Sub(times[0]).Seconds()
	return fmt.Sprintf("%d calls of 200 ms at concurrency 512: %.0f calls/s from one lane of a worker; its memory at most %.0f MB (VmHWM)", n, rate, float64(peak)/1024), rate
}

// peakMemory is the most memory that a process has had, in KiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Log(err)
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	n, _ := strconv.Atoi(strings.Fields(rest)[0])
	return n
}
