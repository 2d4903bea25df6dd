package stream

import (
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirhq/weir/schemas"
)

// maxUnknownNames is how many names of unknown fields have a series of their own in one
// process and stage: producers choose them. unknownEvery is how often a name is logged.
const (
	maxUnknownNames = 50
	unknownEvery    = time.Hour
)

// UnknownFields counts the fields of requests over Kafka that Weir does not know and
// ignores, by name. One is shared by all readers of a stage.
type UnknownFields struct {
	fields *prometheus.CounterVec
	stage  string
	log    *slog.Logger
	now    func() time.Time

	mu     sync.Mutex
	logged map[string]time.Time // when each name was logged last
}

// NewUnknownFields returns those of a stage.
func NewUnknownFields(reg prometheus.Registerer, stage string, log *slog.Logger, now func() time.Time) *UnknownFields {
	return &UnknownFields{stage: stage, log: log, now: now, logged: make(map[string]time.Time), fields: unknownCounter(reg)}
}

func unknownCounter(reg prometheus.Registerer) *prometheus.CounterVec {
	return shared(reg, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "weir_request_unknown_fields_total",
		Help: "Requests over Kafka with a field that Weir does not know, by the field's name and the stage that read it. The field is ignored, or the request rejected where its tenant or input has strict: true. Names beyond the first 50, and names that are no plain words, are other; field_N is a field of protobuf, ce_NAME an extension attribute of CloudEvents.",
	}, []string{"stage", "field"}))
}

// UnknownCounts returns in how many requests each unknown field was, in all stages of
// the process whose metrics reg has.
func UnknownCounts(reg prometheus.Registerer) map[string]int64 {
	series := make(chan prometheus.Metric)
	go func() {
		unknownCounter(reg).Collect(series)
		close(series)
	}()
	out := make(map[string]int64)
	for m := range series {
		var is dto.Metric
		if m.Write(&is) != nil {
			continue
		}
		for _, label := range is.GetLabel() {
			if label.GetName() == "field" {
				out[label.GetValue()] += int64(is.GetCounter().GetValue())
			}
		}
	}
	return out
}

// UnknownOpen is what one transaction met. It counts once it is committed.
type UnknownOpen struct {
	all *UnknownFields
	met map[string]unknownMet
}

type unknownMet struct {
	n  int
	at schemas.Source // the first
}

// Open returns what is empty, for one reader.
func (u *UnknownFields) Open() *UnknownOpen {
	return &UnknownOpen{all: u, met: make(map[string]unknownMet)}
}

// Met notes the unknown fields of one request. A nil o notes nothing.
func (o *UnknownOpen) Met(names []string, at schemas.Source) {
	if o == nil {
		return
	}
	for _, name := range names {
		if _, had := o.met[name]; !had && len(o.met) >= maxUnknownNames {
			name = schemas.OtherField
		}
		m := o.met[name]
		if m.n++; m.n == 1 {
			m.at = at
		}
		o.met[name] = m
	}
}

// Ended counts what was met, or forgets it.
func (o *UnknownOpen) Ended(committed bool) {
	if committed {
		for name, m := range o.met {
			o.all.count(name, m)
		}
	}
	clear(o.met)
}

func (u *UnknownFields) count(name string, m unknownMet) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, had := u.logged[name]; !had && len(u.logged) >= maxUnknownNames {
		name = schemas.OtherField
	}
	u.fields.WithLabelValues(u.stage, name).Add(float64(m.n))
	now := u.now()
	if last, had := u.logged[name]; had && now.Sub(last) < unknownEvery {
		return
	}
	u.logged[name] = now
	u.log.Warn("a request has a field that Weir does not know; it is ignored unless strict: true rejects it",
		"field", name, "nearest", schemas.NearestField(name), "topic", m.at.Topic, "partition", m.at.Partition, "offset", m.at.Offset)
}
