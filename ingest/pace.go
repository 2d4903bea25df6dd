package ingest

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/ingest/throttle"
	"github.com/weirhq/weir/processor/policy"
	"github.com/weirhq/weir/schemas"
)

// pacer holds callers to the API's own limits, which throttle decides: it finds
// out whose call it is, says in the answer's header what is left, lets smooth
// calls wait, and counts. It comes before the body is read.
type pacer struct {
	limits  *throttle.Limiter
	policy  *policy.Watcher
	shared  func() int // how many processes share the rates
	trusted []netip.Prefix
	began   time.Time
	stop    chan struct{} // closed when the server drains: nobody waits any longer

	decided, refused *prometheus.CounterVec
	left             *prometheus.HistogramVec
}

// busiestKeys is how many keys weir_http_busiest_keys shows.
const busiestKeys = 10

func newPacer(policy *policy.Watcher, shared func() int, trusted []netip.Prefix) *pacer {
	p := &pacer{
		limits:  throttle.New(throttle.Config{}),
		policy:  policy,
		shared:  shared,
		trusted: trusted,
		began:   time.Now(),
		stop:    make(chan struct{}),
		decided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_http_rate_decisions_total",
			Help: "Calls that the API's own limits decided, those refused too, by kind of call.",
		}, []string{"kind"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_http_rate_limited_total",
			Help: "Calls that the API's own limits refused, by kind of call.",
		}, []string{"kind"}),
		left: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "weir_http_rate_left_ratio",
			Help:    "What a call left of its caller's rate, 0 to 1, by kind of call; 0 also where it was refused.",
			Buckets: []float64{0, .05, .1, .25, .5, .75, .9, 1},
		}, []string{"kind"}),
	}
	for _, k := range throttle.Kinds { // 0 before the first: else its increase is not seen
		p.decided.WithLabelValues(string(k))
		p.refused.WithLabelValues(string(k))
	}
	return p
}

func (p *pacer) register(to *prometheus.Registry) error {
	for _, c := range []prometheus.Collector{p.decided, p.refused, p.left, p} {
		if err := to.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// now is by a clock that does not go back.
func (p *pacer) now() time.Duration { return time.Since(p.began) }

// follow has the limits be those of the policy in force.
func (p *pacer) follow(now time.Duration) {
	p.limits.SetPolicy(&p.policy.Latest().Policy, p.shared(), now)
}

// pass returns nil when the call may go on, which for a smooth rate is after it
// has waited its turn.
func (p *pacer) pass(w http.ResponseWriter, r *http.Request, c *caller, kind pace) *client.Problem {
	if kind == paceNone {
		return nil
	}
	now := p.now()
	p.follow(now)
	paid := charge{pacer: p}
	var limited bool
	if c.key != nil {
		paid.key = c.key.Name
		paid.verdict, limited = p.limits.Key(paid.key, kind, now)
	} else {
		paid.address = throttle.ClientAddr(r, p.trusted)
		paid.verdict, limited = p.limits.Address(paid.address, kind, now)
	}
	if !limited {
		return nil
	}
	if p.tell(w, paid.verdict); !paid.verdict.Allowed {
		return tooFast(paid.verdict)
	}
	if a, ok := w.(*answering); ok {
		a.paid = paid
	}
	return p.wait(w, r, paid.verdict.Wait)
}

// charge is what a call took of its caller's rate.
type charge struct {
	pacer   *pacer // nil: nothing
	key     string // empty: of the address
	address netip.Addr
	verdict throttle.Verdict
}

// giveBack undoes what a call took of its caller's rate: the server could not do what was
// asked, and has not begun. The answer's header says what is left then.
func giveBack(w http.ResponseWriter) {
	a, ok := w.(*answering)
	if !ok || a.paid.pacer == nil {
		return
	}
	p, paid := a.paid.pacer, a.paid
	a.paid = charge{}
	var left throttle.Verdict
	if paid.key != "" {
		left, ok = p.limits.GiveBack(paid.key, paid.verdict, p.now())
	} else {
		left, ok = p.limits.GiveBackAddress(paid.address, paid.verdict, p.now())
	}
	if ok {
		show(w.Header(), left)
	}
}

// guessed counts a key that is nobody's against the address that it came from, and
// returns what to answer: otherwise, while it may go on guessing.
func (p *pacer) guessed(w http.ResponseWriter, r *http.Request, otherwise *client.Problem) *client.Problem {
	v, limited := p.limits.Address(throttle.ClientAddr(r, p.trusted), paceLogin, p.now())
	if !limited {
		return otherwise
	}
	if p.tell(w, v); !v.Allowed {
		return tooFast(v)
	}
	return otherwise
}

// tell counts a decision and writes it into the answer's header:
// draft-ietf-httpapi-ratelimit-headers-11, and what was usual before it.
func (p *pacer) tell(w http.ResponseWriter, v throttle.Verdict) {
	kind := string(v.Rate.Kind())
	p.decided.WithLabelValues(kind).Inc()
	if !v.Allowed {
		p.refused.WithLabelValues(kind).Inc()
	}
	p.left.WithLabelValues(kind).Observe(float64(v.Remaining) / float64(v.Rate.Limit()))
	show(w.Header(), v)
}

// show writes a verdict into an answer's header.
func show(h http.Header, v throttle.Verdict) {
	kind := string(v.Rate.Kind())
	// Every call has these: their values are cut from one text and one list.
	var room [128]byte
	b := append(append(append(room[:0], '"'), kind...), `";r=`...)
	b = strconv.AppendInt(b, v.Remaining, 10)
	b = append(b, ";t="...)
	b = strconv.AppendInt(b, seconds(v.Reset), 10)
	state := len(b)
	b = strconv.AppendInt(b, v.Rate.Limit(), 10)
	limit := len(b)
	b = strconv.AppendInt(b, v.Remaining, 10)
	remaining := len(b)
	b = strconv.AppendInt(b, time.Now().Add(v.Reset+time.Second-1).Unix(), 10)
	text := string(b)
	values := []string{v.Rate.Policy(), text[:state], text[state:limit], text[limit:remaining], text[remaining:]}
	h["Ratelimit-Policy"] = values[0:1:1]
	h["Ratelimit"] = values[1:2:2]
	h["X-Ratelimit-Limit"] = values[2:3:3]
	h["X-Ratelimit-Remaining"] = values[3:4:4]
	h["X-Ratelimit-Reset"] = values[4:5:5]
}

// tooFast is the problem of a call that comes too soon. It was not looked at,
// and takes nothing from who repeats it.
func tooFast(v throttle.Verdict) *client.Problem {
	kind := string(v.Rate.Kind())
	whose := ""
	if v.Together {
		whose = ", of all keys of the tenant together,"
	}
	p := after(clientRate.problem("Calls of kind "+kind+whose+" come faster than they may; RateLimit-Policy says how many there may be. Nothing was done."), v.Reset)
	p.ViolatedPolicies = []string{kind}
	p.RetryAt = schemas.MillisOf(time.Now().Add(v.Reset + time.Millisecond - 1))
	p.RetryAfterSeconds = seconds(v.Reset)
	return p
}

// seconds is d in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// wait returns nil when d is over. The time for the body and the answer begins
// only then.
func (p *pacer) wait(w http.ResponseWriter, r *http.Request, d time.Duration) *client.Problem {
	if d <= 0 {
		return nil
	}
	turn := time.NewTimer(d)
	defer turn.Stop()
	select {
	case <-turn.C:
	case <-r.Context().Done():
		return notReady.problem("The call ended before its turn came.")
	case <-p.stop:
		return after(notReady.problem("The server shuts down before the call's turn."), time.Second)
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(readTimeout))
	rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	return nil
}

var (
	busiestDesc = prometheus.NewDesc("weir_http_busiest_keys",
		"Calls of the API keys that call most, in the last minute or about, refused ones too, by the key's name: at most 10 keys.", []string{"key"}, nil)
	addressesDesc = prometheus.NewDesc("weir_http_rate_addresses",
		"Addresses whose calls are remembered, each kind of call by itself; at most 65536.", nil, nil)
)

// Describe is prometheus.Collector.
func (p *pacer) Describe(to chan<- *prometheus.Desc) {
	to <- busiestDesc
	to <- addressesDesc
}

// Collect is prometheus.Collector.
func (p *pacer) Collect(to chan<- prometheus.Metric) {
	for _, b := range p.limits.Busiest(busiestKeys, p.now()) {
		to <- prometheus.MustNewConstMetric(busiestDesc, prometheus.GaugeValue, float64(b.Calls), b.Key)
	}
	to <- prometheus.MustNewConstMetric(addressesDesc, prometheus.GaugeValue, float64(p.limits.Addresses()))
}
