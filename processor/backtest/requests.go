package backtest

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/weirhq/weir/processor/content"
	"github.com/weirhq/weir/processor/request"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// requests are what a policy looks at in requests themselves, by where they
// stand. What many have in common is kept once.
type requests struct {
	needs    needs
	policy   *schemas.Policy
	requests string // the topic
	parts    []found
	mu       sync.Mutex
	redriven map[schemas.Source]wording
	most     int64
	total    int64
}

// found is a partition's requests: an index into wordings by offset.
type found struct {
	base     int64
	at       []int32 // 0: none
	wordings []wording
	index    map[string]int32
}

// wording is what is looked at in one request.
type wording struct {
	content  string
	metadata map[string]string
}

func (q *requests) find(at schemas.Source) (wording, bool) {
	if at.Topic != q.requests {
		w, ok := q.redriven[at]
		return w, ok
	}
	if int(at.Partition) >= len(q.parts) {
		return wording{}, false
	}
	p := &q.parts[at.Partition]
	i := at.Offset - p.base
	if i < 0 || i >= int64(len(p.at)) || p.at[i] == 0 {
		return wording{}, false
	}
	return p.wordings[p.at[i]], true
}

// wording reads what is needed of a request; false if it is no request. A
// content that cannot be made is none: such a message was rejected, or sent
// elsewhere.
func (q *requests) wording(r *kgo.Record) (wording, bool) {
	req, err := schemas.DecodeRequest(r.Value, request.Header(r))
	if err != nil {
		return wording{}, false
	}
	var w wording
	if q.needs.content {
		if text, err := content.Of(req, q.policy); err == nil {
			w.content = text.Hash()
		}
	}
	for _, field := range q.needs.metadata {
		if v, ok := req.Metadata[field]; ok {
			if w.metadata == nil {
				w.metadata = make(map[string]string, len(q.needs.metadata))
			}
			w.metadata[strings.Clone(field)] = strings.Clone(v)
		}
	}
	return w, true
}

func (q *requests) keep(r *kgo.Record) error {
	w, ok := q.wording(r)
	if !ok {
		return nil
	}
	p := &q.parts[r.Partition]
	if p.index == nil {
		p.base, p.index, p.wordings = r.Offset, make(map[string]int32), make([]wording, 1)
	}
	key := w.content
	for _, field := range q.needs.metadata {
		v, ok := w.metadata[field]
		key = fmt.Sprintf("%s\x00%t%d:%s", key, ok, len(v), v)
	}
	i, known := p.index[key]
	if !known {
		i = int32(len(p.wordings))
		p.wordings = append(p.wordings, w)
		p.index[key] = i
	}
	before := len(p.at)
	for int64(len(p.at)) < r.Offset-p.base { // offsets have gaps: markers, and what was no request
		p.at = append(p.at, 0)
	}
	p.at = append(p.at, i)
	if more := len(p.at)/4096 - before/4096; more > 0 {
		q.mu.Lock()
		defer q.mu.Unlock()
		// An index is 4 bytes, and the rest is counted as it is.
		if q.total += int64(more) * 4096 / 16; q.total+int64(len(p.wordings)) > q.most {
			return ErrTooMuch
		}
	}
	return nil
}

// readRequests reads the requests that the log has since a time, and those that
// were sent again.
func readRequests(ctx context.Context, src *source, need needs, from schemas.Millis) (*requests, error) {
	q := &requests{
		needs: need, policy: src.cfg.Tried, requests: src.cfg.Names.Requests(), parts: make([]found, src.partitions),
		redriven: make(map[schemas.Source]wording), most: src.cfg.Most,
	}
	for _, topic := range []string{q.requests, src.cfg.Names.Readmit()} {
		begins, err := src.begins(ctx, topic, from)
		if err != nil {
			return nil, err
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(readers)
		for n, at := range begins {
			g.Go(func() error {
				return src.span(gctx, stream.Partition{Topic: topic, Partition: n}, at, func(r *kgo.Record) error {
					if topic == q.requests {
						return q.keep(r)
					}
					if !redrive(r) {
						return nil
					}
					w, ok := q.wording(r)
					if ok {
						q.mu.Lock()
						defer q.mu.Unlock()
						q.redriven[schemas.Source{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}] = w
					}
					return nil
				})
			})
		}
		if err := g.Wait(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
	}
	for i := range q.parts {
		q.parts[i].index = nil
	}
	return q, nil
}

func redrive(r *kgo.Record) bool {
	for i := range r.Headers {
		if r.Headers[i].Key == schemas.HeaderReason {
			return string(r.Headers[i].Value) == schemas.ReadmitRedrive
		}
	}
	return false
}
