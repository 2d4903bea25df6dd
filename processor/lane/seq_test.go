package lane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// numbered holds the journal that is retained to its invariant: its numbers are dense from
// first on. Each status of a retained record names it. It returns the last number.
func (r *rig) numbered(first int64) int64 {
	r.t.Helper()
	entries := make(map[string]entry)
	last := first - 1
	for _, e := range r.journal() {
		if last++; e.Seq != last {
			r.t.Errorf("%s of %s has the number %d, want %d", e.Kind, e.ID, e.Seq, last)
		}
		entries[fmt.Sprint("0/", e.Seq)] = e
	}
	named := make(map[string]int)
	for _, rec := range r.read(r.names.Status()) {
		e, err := schemas.DecodeEvent(rec.Value)
		if err != nil {
			r.t.Fatal(err)
		}
		name := ""
		for _, h := range rec.Headers {
			if h.Key == schemas.HeaderJournal {
				name = string(h.Value)
			}
		}
		named[name]++
		if j, there := entries[name]; there && (j.ID != e.MessageID || j.T != e.At || (j.Kind == "permit") != (e.Status == schemas.StatusSending)) {
			r.t.Errorf("%s of %s names %q, which is %+v", e.Status, e.MessageID, name, j)
		}
		if name == "" {
			r.t.Errorf("%s of %s names no record of the journal", e.Status, e.MessageID)
		}
	}
	for name := range entries {
		if n := named[name]; n != 1 {
			r.t.Errorf("%d statuses name %s", n, name)
		}
	}
	return last
}

// TestJournalNumbersAreDense: through transactions that are aborted, with permits and with
// outcomes in them, and for messages that end without a call.
func TestJournalNumbersAreDense(t *testing.T) {
	t.Parallel()
	r := newFakeRig(t, oneProvider(nil))
	refuse, refused := streamtest.RefuseOffsets(r.cluster)
	stop := r.run(r.config("a"))
	for i := range 4 {
		refuse.Store(int32(i % 3))
		id := fmt.Sprint("m", i)
		r.dispatch(message{id: id})
		r.statuses(id, schemas.StatusSending, schemas.StatusSent)
	}
	r.dispatch(message{id: "late", change: func(e *schemas.Envelope) { e.ExpiresAt = 1 }}, message{id: "bad", body: "{"})
	r.statuses("late", schemas.StatusExpired)
	r.statuses("bad", schemas.StatusFailed)
	stop()
	if n := refused.Load(); n < 3 {
		t.Fatalf("%d transactions were refused: the test shows nothing", n)
	}
	if last := r.numbered(1); last != 10 {
		t.Errorf("%d records, want 10", last)
	}
}

// TestJournalNumbersGoOn: a new owner goes on behind the last number, also where retention
// took all of the journal, or someone set the group's offsets.
func TestJournalNumbersGoOn(t *testing.T) {
	t.Parallel()
	r := newFakeRig(t, oneProvider(nil))
	adm := kadm.NewClient(r.cl)
	topic := r.names.Journal("p")
	send := func(id string) {
		t.Helper()
		stop := r.run(r.config(id))
		defer stop()
		r.dispatch(message{id: id})
		r.statuses(id, schemas.StatusSending, schemas.StatusSent)
	}
	retention := func() {
		t.Helper()
		ends, err := adm.ListEndOffsets(t.Context(), topic)
		if err == nil {
			_, err = adm.DeleteRecords(t.Context(), ends.Offsets())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// as an earlier version sets the offsets, or someone else
	unsaid := func(metadata func(string) string) {
		t.Helper()
		group := lane.Group(r.names, "p")
		stood, err := adm.FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		offsets := make(kadm.Offsets)
		stood.Each(func(o kadm.OffsetResponse) {
			if !strings.Contains(o.Metadata, " s=") {
				t.Errorf("%s stands without a number: %q", o.Topic, o.Metadata)
			}
			o.Metadata = metadata(o.Metadata)
			offsets.Add(o.Offset)
		})
		if err := adm.CommitAllOffsets(t.Context(), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	earlier := func(text string) string {
		before, _, _ := strings.Cut(text, " s=")
		return before
	}

	send("a")
	send("b")
	r.numbered(1)
	retention()
	send("c")
	r.numbered(5)
	unsaid(func(string) string { return "" })
	send("d")
	r.numbered(5)
	unsaid(earlier)
	send("e")
	r.numbered(5)
	unsaid(earlier)
	retention()
	send("f") // after an earlier version whose records were all that was left: nothing says a number
	if j := r.journal(); len(j) != 2 || j[0].Seq != 1 || j[1].Seq != 2 {
		t.Errorf("%+v, want the numbers 1 and 2", j)
	}
	if n := r.position(topics.QueueNormal); n != 6 {
		t.Errorf("the group stands at %d, want 6", n)
	}
}
