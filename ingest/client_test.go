package ingest

import (
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/schemas"
)

// jsonFields are a type's fields as JSON has them, with how they are left out.
func jsonFields(t reflect.Type) map[string]string {
	out := make(map[string]string)
	for f := range t.Fields() {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		out[name] = option + " " + f.Type.Kind().String()
	}
	return out
}

// The client reads what the dead letter queue writes. Its types are its own, so
// that to import it is not to import Kafka's client.
func TestClientHasTheTypesOfTheDLQ(t *testing.T) {
	for _, tt := range []struct{ server, client reflect.Type }{
		{reflect.TypeFor[dlq.Page](), reflect.TypeFor[client.DeadLetters]()},
		{reflect.TypeFor[dlq.Entry](), reflect.TypeFor[client.DeadLetter]()},
		{reflect.TypeFor[dlq.Summary](), reflect.TypeFor[client.Redriven]()},
	} {
		want, got := jsonFields(tt.server), jsonFields(tt.client)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v has %v, %v has %v", tt.client, got, tt.server, want)
		}
	}
}

// The client's batches are in the log, each message under the id that it was
// answered with, and a bad one among them does not sink the others.
func TestClientSendsBatches(t *testing.T) {
	const n = 12_000
	w := newWorld(t, settings{})
	c := client.New("http://"+w.addr, "")
	defer c.Close()
	to := func(i int) string { return fmt.Sprintf("+86138%08d", i) }
	var requests iter.Seq[*schemas.Request] = func(yield func(*schemas.Request) bool) {
		for i := range n {
			q := &schemas.Request{Channel: "sms", To: to(i), Body: "b"}
			if i%1000 == 7 {
				q.To = "nobody"
			}
			if !yield(q) {
				return
			}
		}
	}
	ids := make(map[string]string) // recipients
	i := 0
	for r, err := range c.Batch(t.Context(), requests) {
		switch {
		case err != nil || r.Index != i:
			t.Fatalf("%d: %+v %v", i, r, err)
		case (r.Error != nil) != (i%1000 == 7):
			t.Fatalf("%d: %+v", i, r)
		case r.Error == nil:
			ids[r.ID] = to(i)
		}
		i++
	}
	if i != n || len(ids) != n-n/1000 {
		t.Fatalf("%d results, %d ids", i, len(ids))
	}
	for _, rec := range w.requests(len(ids)) {
		q, err := schemas.DecodeRequest(rec.Value, nil)
		if err != nil || ids[q.ID] != q.To {
			t.Fatalf("%s is to %s: %v", q.ID, q.To, err)
		}
		delete(ids, q.ID)
	}
	if len(ids) != 0 {
		t.Errorf("%d messages are not in the log", len(ids))
	}
}
