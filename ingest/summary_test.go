package ingest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

func TestSummaryStream(t *testing.T) {
	w := newWorld(t, settings{server: func(s *Server) { s.streams.beat = time.Hour }})
	st := w.stream("/v1/events?summary=1s&channel=sms")
	count := func(t *testing.T, e streamed) client.Summary {
		t.Helper()
		var s client.Summary
		if err := json.Unmarshal([]byte(e.data), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := count(t, st.next("summary"))
	if took := first.Until.Sub(first.From); first.Counts == nil || len(first.Counts) != 0 || took < 500*time.Millisecond || took > time.Minute {
		t.Errorf("nothing has happened: %+v", first)
	}
	for i := range 700 {
		e := event(numbered(i), schemas.StatusSent, int64(i))
		e.Channel, e.Class, e.Provider = "sms", "verify", "p"
		switch {
		case i < 10:
			e.Provider, e.Status = "", schemas.StatusLimited
		case i < 20:
			e.Channel = "email" // not asked for
		case i < 30:
			e.Tenant = "other"
		}
		w.status(e)
	}
	got := make(map[string]int64)
	last := first
	for got["verify p sms sent"] < 670 {
		s := count(t, st.next("summary"))
		if s.From != last.Until {
			t.Errorf("a summary begins at %v, the one before ended at %v", s.From, last.Until)
		}
		last = s
		for _, c := range s.Counts {
			got[fmt.Sprint(c.Class, " ", c.Provider, " ", c.Channel, " ", c.Status)] += c.Events
		}
	}
	if want := "map[verify  sms limited:10 verify p sms sent:670]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	// Where one summary ended a stream of statuses goes on.
	late := event(numbered(900), schemas.StatusSent, 1)
	w.status(late)
	on := w.stream("/v1/events", "Last-Event-ID: "+st.id)
	if e := on.next("status").event(t); e.MessageID != late.MessageID {
		t.Errorf("%+v", e)
	}
	for _, bad := range []string{"0s", "500ms", "61s", "1500ms", "x", ""} {
		w.do("GET", "/v1/events?summary="+bad, "").problem(http.StatusBadRequest, "invalid_request")
	}
}

// TestSums: what is told apart is bounded, and nothing is left out.
func TestSums(t *testing.T) {
	at := time.UnixMilli(1000)
	s := newSums(at)
	for i := range 2 * mostSums {
		s.add(&item{channel: "sms", class: fmt.Sprint(i), status: schemas.StatusSent})
	}
	s.add(&item{channel: "sms", class: "0", status: schemas.StatusSent}) // is known
	got := s.take(at.Add(time.Second))
	total := int64(0)
	for _, c := range got.Counts {
		total += c.Events
	}
	if len(got.Counts) != mostSums+1 || total != 2*mostSums+1 || got.Counts[0].Events != mostSums || got.Counts[0].Class != "" || got.Counts[1].Class != "0" || got.Counts[1].Events != 2 || got.From != 1000 || got.Until != 2000 {
		t.Errorf("%d kinds, %d in all, first %+v %+v", len(got.Counts), total, got.Counts[0], got.Counts[1])
	}
	if next := s.take(at.Add(3 * time.Second)); len(next.Counts) != 0 || next.From != 2000 {
		t.Errorf("%+v", next)
	}
}
