package ingest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/dlq"
	"github.com/weirhq/weir/schemas"
)

// bury writes n records to the DLQ as admission and lanes do.
func (w *world) bury(n int, tenant string) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(w.names.DLQ()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	for i := range n {
		to := fmt.Sprintf("+861380000%04d", i)
		id, err := schemas.NewID()
		if err != nil {
			w.t.Fatal(err)
		}
		env := schemas.Envelope{ID: id, Key: to, Tenant: tenant, Reason: []string{"permanent", "attempts_exhausted"}[i%2], Provider: "sim",
			Attempt: 1, Origin: schemas.Source{Topic: w.names.Requests(), Offset: int64(i)}, AcceptedAt: 1_800_000_000_000}
		r := &kgo.Record{Partition: schemas.PartitionOf(to, partitions), Key: []byte(to), Value: fmt.Appendf(nil, `{"channel":"sms","to":%q,"class":"verify","body":"secret %d"}`, to, i)}
		env.Each(func(k string, v []byte) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: k, Value: v}) })
		if err := cl.ProduceSync(w.t.Context(), r).FirstErr(); err != nil { // one by one: each has its time
			w.t.Fatal(err)
		}
	}
}

func TestDLQOverHTTP(t *testing.T) {
	w := newWorld(t, settings{})
	if got := read[dlq.Page](w.do("GET", "/v1/dlq", ""), http.StatusOK); len(got.Entries) != 0 || got.Cursor != "" {
		t.Fatalf("an empty queue: %+v", got)
	}
	const n = 130
	w.bury(n, "default")
	w.bury(3, "other")

	for _, order := range []string{"newest", "oldest"} {
		seen, last, path := make(map[string]bool), schemas.Millis(0), "/v1/dlq?limit=40&order="+order
		for cursor, pages := "", 0; ; pages++ {
			r := w.do("GET", path+cursor, "")
			if strings.Contains(string(r.body), "secret") || strings.Contains(string(r.body), "+861380") {
				t.Fatalf("a body or a recipient in a list: %s", r.body)
			}
			page := read[dlq.Page](r, http.StatusOK)
			for _, e := range page.Entries {
				if seen[e.MessageID] || last != 0 && (order == "newest") == (e.At > last) && e.At != last {
					t.Fatalf("%s: %s comes twice, or out of its order", order, e.MessageID)
				}
				seen[e.MessageID], last = true, e.At
			}
			if page.Cursor == "" {
				break
			}
			if cursor = "&cursor=" + page.Cursor; pages > 10 {
				t.Fatal("the pages do not end")
			}
		}
		if len(seen) != n {
			t.Fatalf("%s: %d of %d were listed: another tenant's never are", order, len(seen), n)
		}
	}
	half := read[dlq.Page](w.do("GET", "/v1/dlq?limit=500&reason=permanent&provider=sim&class=verify", ""), http.StatusOK)
	if len(half.Entries) != n/2 {
		t.Fatalf("%d were given up on for good, want %d", len(half.Entries), n/2)
	}
	for _, at := range []string{"2020-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "0220-03-05T21:24:10Z"} {
		if none := read[dlq.Page](w.do("GET", "/v1/dlq?until="+at, ""), http.StatusOK); len(none.Entries) != 0 {
			t.Fatalf("before there was anything: %+v", none)
		}
		if all := read[dlq.Page](w.do("GET", "/v1/dlq?limit=500&since="+at, ""), http.StatusOK); len(all.Entries) != n {
			t.Fatalf("since before there was anything: %d", len(all.Entries))
		}
	}

	first := read[dlq.Page](w.do("GET", "/v1/dlq?limit=1", ""), http.StatusOK)
	for path, code := range map[string]string{
		"/v1/dlq?limit=0": "invalid_request", "/v1/dlq?limit=501": "invalid_request", "/v1/dlq?since=yesterday": "invalid_request", "/v1/dlq?until=": "invalid_request",
		"/v1/dlq?classs=verify": "invalid_request", "/v1/dlq?order=best": "invalid_request", "/v1/dlq?limit=1&limit=2": "invalid_request",
		"/v1/dlq?cursor=x": "invalid_request", "/v1/dlq?class=verify&cursor=" + first.Cursor: "invalid_request", "/v1/dlq?%zz": "invalid_request",
	} {
		w.do("GET", path, "").problem(http.StatusBadRequest, code)
	}
	if page := read[dlq.Page](w.do("GET", "/v1/dlq?tenant=other", ""), http.StatusOK); len(page.Entries) == 0 || page.Entries[0].Tenant != "other" {
		t.Errorf("of another tenant who needs no key sees %+v", page)
	}
	for _, body := range []string{`[]`, `null`, `{"ids":[]}`, `{"ids":[null]}`, `{"limit":null}`, `{"since":""}`, `{"limit":3}`, `{"rate":0}`, `{"rate":"fast"}`, `{"dry_run":1}`, `{"since":"x"}`, `{"ids":"x"}`, `{"cursor":"x"}`} {
		w.do("POST", "/v1/dlq/redrive", body).problem(http.StatusBadRequest, "invalid_request")
	}
	w.do("POST", "/v1/dlq/redrive", `{"tenant":"other"}`).problem(http.StatusForbidden, "forbidden_tenant")

	asked := func() (n int64) {
		ends, err := kadm.NewClient(w.cl).ListEndOffsets(t.Context(), w.names.Readmit())
		if err != nil {
			t.Fatal(err)
		}
		ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
		return n
	}
	dry := read[dlq.Summary](w.do("POST", "/v1/dlq/redrive", `{"reason":"permanent","dry_run":true}`), http.StatusOK)
	if dry.Redriven != n/2 || !dry.DryRun || asked() != 0 {
		t.Fatalf("a dry run: %+v, and %d records", dry, asked())
	}
	w.bury(2, "default") // one of them was given up on for good
	same := read[dlq.Summary](w.do("POST", "/v1/dlq/redrive", `{"reason":"permanent","dry_run":true,"cursor":"`+dry.Start+`"}`), http.StatusOK)
	if same.Redriven != n/2 || dry.Start == "" || same.Start != "" {
		t.Fatalf("from a dry run's start: %+v", same)
	}
	one := read[dlq.Summary](w.do("POST", "/v1/dlq/redrive", `{"ids":["`+first.Entries[0].Position+`"]}`), http.StatusAccepted)
	if one.Redriven != 1 || asked() != 1 {
		t.Fatalf("one: %+v, and %d records", one, asked())
	}
	for _, body := range []string{"", `{}`, `{"rate":5000}`, `{"again":true}`, `{"all":false}`, `{"all":null}`} {
		if got := w.do("POST", "/v1/dlq/redrive", body).problem(http.StatusBadRequest, "invalid_request"); asked() != 1 || got.Errors[0].Pointer != "/all" {
			t.Fatalf("%s, without a filter: %+v, and %d records", body, got, asked())
		}
	}
	all := read[dlq.Summary](w.do("POST", "/v1/dlq/redrive", `{"all":true,"rate":5000}`), http.StatusAccepted)
	if all.Redriven != n/2 || all.Skipped["permanent"] != n/2+1 || all.Skipped[dlq.SkipRedriven] != 1 || all.Cursor != "" || asked() != n/2+1 {
		t.Fatalf("all: %+v, and %d records", all, asked())
	}
	rest := read[dlq.Summary](w.do("POST", "/v1/dlq/redrive", `{"reason":"permanent","rate":5000}`), http.StatusAccepted)
	if rest.Redriven != n/2+1 || asked() != n+2 {
		t.Fatalf("the reason is named: %+v, and %d records", rest, asked())
	}
	once := `{"ids":["` + first.Entries[0].Position + `"]`
	if two := read[dlq.Summary](w.do("POST", "/v1/dlq/redrive", once+`}`), http.StatusAccepted); two.Redriven != 0 || two.Skipped[dlq.SkipRedriven] != 1 {
		t.Fatalf("a second time: %+v", two)
	}
	if two := read[dlq.Summary](w.do("POST", "/v1/dlq/redrive", once+`,"again":true}`), http.StatusAccepted); two.Redriven != 1 || asked() != n+3 {
		t.Fatalf("again: %+v", two)
	}
	if page := read[dlq.Page](w.do("GET", "/v1/dlq?limit=1", ""), http.StatusOK); page.Entries[0].RedrivenAt == 0 {
		t.Errorf("the list does not show it: %+v", page.Entries[0])
	}
	w.line.cut()
	w.do("GET", "/v1/dlq", "").problem(http.StatusServiceUnavailable, "kafka_unavailable")
}
