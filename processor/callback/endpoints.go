package callback

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// weir.callbacks.endpoints holds, under off/ and what names an endpoint, that it is
// disabled, and under worker/ and a slot, what that process last said.
const (
	offPrefix    = "off/"
	workerPrefix = "worker/"
)

func noteKey(print string) string { return offPrefix + print }

// Note says that an endpoint answered 410.
type Note struct {
	Tenant string         `json:"tenant"`
	Host   string         `json:"host"`
	Since  schemas.Millis `json:"since"`
	// Own is the address of a request, and not the tenant's: it stays disabled for
	// three days, since nobody changes it.
	Own bool `json:"own,omitempty"`
}

func (n *Note) stands(now schemas.Millis) bool { return !n.Own || now.Sub(n.Since) < keepTrying }

// Report is how the endpoints of a process are.
type Report struct {
	At        schemas.Millis  `json:"at"`
	Slot      string          `json:"slot"`
	Waiting   map[string]int  `json:"waiting,omitempty"` // callbacks in the delay topics, by tenant
	Endpoints []EndpointState `json:"endpoints,omitempty"`
}

// EndpointState is one endpoint as a process sees it.
type EndpointState struct {
	Tenant  string `json:"tenant"`
	Host    string `json:"host"`
	State   string `json:"state"` // closed, half-open, open: the breaker's
	Queued  int    `json:"queued"`
	Calling int    `json:"calling"`
	Last    string `json:"last,omitempty"` // what was wrong last
}

const (
	maxReported = 200
	reportEvery = 5 * time.Second
	reportStale = time.Minute // a process that said nothing for so long is gone
)

// notes are which endpoints are disabled, as their topic says. Its methods may be called
// from any goroutine.
type notes struct {
	advice *stream.Advice
	mu     sync.Mutex
	off    map[string]Note
}

func newNotes(cfg Config) *notes {
	n := &notes{off: make(map[string]Note)}
	n.advice = &stream.Advice{Topic: cfg.Names.Endpoints(), What: "which endpoints are disabled", Logger: cfg.Logger, Take: n.take, Turned: func() {}}
	return n
}

func (n *notes) take(r *kgo.Record) {
	print, ok := strings.CutPrefix(string(r.Key), offPrefix)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.off, print)
	var note Note
	if len(r.Value) > 0 && json.Unmarshal(r.Value, &note) == nil {
		n.off[print] = note
	}
}

func (n *notes) set(print string, note Note) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.off[print] = note
}

func (n *notes) disabled(print string, now schemas.Millis) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	note, ok := n.off[print]
	return ok && note.stands(now)
}

func (n *notes) count(now schemas.Millis) (c int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, note := range n.off {
		if note.stands(now) {
			c++
		}
	}
	return c
}

// report hands over how the endpoints are; the latest counts.
func (r *runner) report(rep Report) {
	select {
	case <-r.reports:
	default:
	}
	r.reports <- rep // there is room: this is the only writer
}

// writeReports writes them, now and then. It is advice: where it cannot be written,
// callbacks go on.
func (r *runner) writeReports(ctx context.Context, cl *kgo.Client) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case rep := <-r.reports:
			empty := len(rep.Endpoints) == 0 && len(rep.Waiting) == 0
			if empty && !said {
				continue
			}
			said = !empty
			within, cancel := context.WithTimeout(ctx, reportEvery)
			err := cl.ProduceSync(within, &kgo.Record{Topic: r.cfg.Names.Endpoints(), Partition: 0, Key: []byte(workerPrefix + rep.Slot), Value: encode(rep)}).FirstErr()
			cancel()
			if err != nil && ctx.Err() == nil {
				r.cfg.Logger.Warn("how the callbacks' endpoints are was not written", "error", err)
			}
		default:
		}
	}
}

// Endpoints is what there is to list.
type Endpoints struct {
	Disabled  []Disabled      `json:"disabled"`
	Endpoints []EndpointState `json:"endpoints"` // of all processes, worst first
	Waiting   map[string]int  `json:"waiting"`   // by tenant
}

// Disabled is an endpoint that answered 410.
type Disabled struct {
	Note
	print string
}

// List reads how the endpoints are.
func List(ctx context.Context, read stream.ReadConfig, names topics.Names, now schemas.Millis) (*Endpoints, error) {
	off := make(map[string]Note)
	workers := make(map[string]Report)
	read.Oversized = stream.SkipOversized // no process of Weir writes one
	err := stream.Read(ctx, read, []stream.Range{{Partition: stream.Partition{Topic: names.Endpoints()}}}, func(r *kgo.Record) error {
		if print, ok := strings.CutPrefix(string(r.Key), offPrefix); ok {
			delete(off, print)
			var n Note
			if len(r.Value) > 0 && json.Unmarshal(r.Value, &n) == nil && n.stands(now) {
				off[print] = n
			}
		}
		if slot, ok := strings.CutPrefix(string(r.Key), workerPrefix); ok {
			delete(workers, slot)
			var w Report
			if len(r.Value) > 0 && json.Unmarshal(r.Value, &w) == nil && now.Sub(w.At) < reportStale {
				workers[slot] = w
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how the callbacks' endpoints are: %w", err)
	}
	out := &Endpoints{Disabled: []Disabled{}, Endpoints: []EndpointState{}, Waiting: make(map[string]int)}
	for print, n := range off {
		out.Disabled = append(out.Disabled, Disabled{n, print})
	}
	slices.SortFunc(out.Disabled, func(a, b Disabled) int { return strings.Compare(a.Tenant+a.Host, b.Tenant+b.Host) })
	for _, w := range workers {
		out.Endpoints = append(out.Endpoints, w.Endpoints...)
		for tenant, n := range w.Waiting {
			out.Waiting[tenant] += n
		}
	}
	rank := map[string]int{"open": 0, "half-open": 1, "closed": 2}
	slices.SortFunc(out.Endpoints, func(a, b EndpointState) int {
		if d := rank[a.State] - rank[b.State]; d != 0 {
			return d
		}
		return strings.Compare(a.Tenant+a.Host, b.Tenant+b.Host)
	})
	return out, nil
}

// Enable takes back that a tenant's endpoints are disabled, and returns how many were.
func Enable(ctx context.Context, cl *kgo.Client, read stream.ReadConfig, names topics.Names, tenant string, now schemas.Millis) (int, error) {
	all, err := List(ctx, read, names, now)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, d := range all.Disabled {
		if d.Tenant != tenant {
			continue
		}
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: names.Endpoints(), Partition: 0, Key: []byte(noteKey(d.print))}).FirstErr(); err != nil {
			return n, fmt.Errorf("enable an endpoint of %s: %w", tenant, err)
		}
		n++
	}
	return n, nil
}
