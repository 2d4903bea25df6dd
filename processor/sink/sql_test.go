package sink_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Every query of docs/sql.md is run as printed, against a story whose answers
// are known.
func TestQueriesOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	reg := prometheus.NewRegistry()
	run(t, sink.Config{Brokers: seeds, URL: url, Logger: logger(t), Metrics: reg})

	now := schemas.MillisOf(time.Now().Add(-5 * time.Minute).Truncate(time.Minute))
	told := append(story(now), wideStory(now)...)
	tell(t, seeds, told)
	conn := open(t, url)
	// Tables are filled one after the other: wait for the whole block.
	until(t, 20*time.Second, "the story is there", func() bool { return confirmed(t, reg) == len(told)+1 })
	at := func(d time.Duration) string { return "'" + now.Add(d).Time().Format("2006-01-02 15:04:05.000") + "'" }
	unit := func(layout string) string { return "'" + now.Time().Format(layout) + "'" }
	var (
		minute, free = unit("2006-01-02 15:04:05"), at(time.Minute)
		history      = fmt.Sprintf("(%s,'m-4','notice','queued','','notice','3/60s',NULL)|(%s,'m-3','verify','limited','limited','verify','1/60s',%s)|(%s,'m-2','verify','limited','limited','verify','1/60s',%s)",
			at(9*time.Second), at(8*time.Second), free, at(7*time.Second), free)
	)
	for _, st := range []struct {
		after  time.Duration
		status string
	}{{6 * time.Second, "delivered"}, {5100 * time.Millisecond, "sent"}, {5 * time.Second, "sending"}, {20 * time.Millisecond, "retrying"}, {10 * time.Millisecond, "sending"}, {0, "queued"}} {
		history += fmt.Sprintf("|(%s,'m-1','verify','%s','','','',NULL)", at(st.after), st.status)
	}
	want := []string{
		"('','',1)|('code','queued',1)|('code','limited',1)|('notice','queued',1)|('verify','queued',1)|('verify','sending',2)|('verify','retrying',1)|('verify','sent',1)|('verify','delivered',1)|('verify','limited',2)",
		"(" + at(0) + ",'queued',0,'','','','','','',NULL)|(" + at(10*time.Millisecond) + ",'sending',1,'aliyun','','','','','',NULL)|(" +
			at(20*time.Millisecond) + ",'retrying',1,'aliyun','','E9','busy','','',NULL)|(" + at(5*time.Second) + ",'sending',2,'aliyun','','','','','',NULL)|(" +
			at(5100*time.Millisecond) + ",'sent',2,'aliyun','','','','','',NULL)|(" + at(6*time.Second) + ",'delivered',2,'aliyun','','','','','',NULL)",
		"('delivered','',2,'aliyun'," + at(-5*time.Millisecond) + "," + at(0) + "," + at(5100*time.Millisecond) + "," + at(5100*time.Millisecond) + ")",
		history,
		"('m-1','aliyun')",
		"(" + unit("2006-01-02 15:00:00") + ",'aliyun','CN',1,1,0,1)",
		"('verify',1,[5105,5105,5105])",
		strings.ReplaceAll("(M,'queued',3,10505)|(M,'sending',2,5005)|(M,'retrying',1,25)|(M,'sent',1,5105)|(M,'delivered',1,6005)|(M,'limited',3,13005)", "M", minute),
		"('verify','aliyun',1)",
		"('aliyun','E9','busy',1)",
		"('verify','1/60s',2,0)|('acme','3/24h',1,0)|('notice','3/60s',0,1)",
		"('+8613800000000','verify',2," + free + ")|('+6590000000','code',1," + at(24*time.Hour) + ")",
		"(" + at(7*time.Second) + `,0,3,1,'refuse',-1,'verify','1/60s','[{"limit":"verify","scope":"+8613800000000","window":"1/60s","n":1,"count":1,"cost":1,"oldest":"` + now.String() + `"}]')`,
		"(" + unit("2006-01-02 15:00:00") + ",'globex','acme','3/24h',1)",
		"(2,'tenant=acme',2)",
		"('" + now.Time().Format("2006-01") + "-01','acme','verify','CNY',1,0.045)",
		"(0,1)|(2,0)", // the story leaves out 5 of partition 0
		"(X,0,0,'decode status event: unexpected character at byte 0',6)",
	}
	queries := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(queries) != len(want) {
		t.Fatalf("%d queries, want %d", len(queries), len(want))
	}
	for i, q := range queries {
		got := answer(t, conn, q[1])
		if i == len(want)-1 {
			got = regexp.MustCompile(`'20[^']*'`).ReplaceAllString(got, "X") // the broker's time
		}
		if diff := cmp.Diff(strings.Split(want[i], "|"), strings.Split(got, "|")); diff != "" {
			t.Errorf("%s%s", q[1], diff)
		}
	}
}

// story is what happens to three messages, and one record that is none.
func story(now schemas.Millis) []schemas.Event {
	const to = "+8613800000000"
	step := func(id string, status schemas.Status, after time.Duration, more func(*schemas.Event)) schemas.Event {
		e := schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: "acme", Channel: "sms", Class: "verify", To: to,
			Status: status, At: now.Add(after), AcceptedAt: now.Add(-5 * time.Millisecond)}
		if more != nil {
			more(&e)
		}
		return e
	}
	try := func(n int) func(*schemas.Event) {
		return func(e *schemas.Event) { e.Attempt, e.Provider = n, "aliyun" }
	}
	refused := func(seq int64) func(*schemas.Event) {
		return func(e *schemas.Event) {
			e.Limit, e.Window, e.Reason, e.RetryAt = "verify", "1/60s", "limited", now.Add(time.Minute)
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictRefuse, Seq: seq, T: e.At, Revision: 1,
				Evidence: []schemas.Evidence{{Limit: "verify", Scope: to, Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: now}}}
		}
	}
	return []schemas.Event{
		{Kind: schemas.KindDecision, At: now, Decision: &schemas.Decision{Verdict: schemas.VerdictMarker, Seq: 1, T: now, Revision: 1, Marker: &schemas.Marker{Revision: 1, Seq: 1, T: now}}},
		step("m-1", schemas.StatusQueued, 0, func(e *schemas.Event) {
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Seq: 2, T: now, Revision: 1, Charges: []schemas.Charge{{Limit: "verify", Scope: to, T: now, Cost: 1}}}
		}),
		step("m-1", schemas.StatusSending, 10*time.Millisecond, try(1)),
		step("m-1", schemas.StatusRetrying, 20*time.Millisecond, func(e *schemas.Event) { try(1)(e); e.ErrorCode, e.Error = "E9", "busy" }),
		step("m-1", schemas.StatusSending, 5*time.Second, try(2)),
		step("m-1", schemas.StatusSent, 5100*time.Millisecond, func(e *schemas.Event) {
			try(2)(e)
			e.ProviderMessageID, e.Price, e.Currency, e.Segments = "p-1", "0.045", "CNY", 1
		}),
		step("m-1", schemas.StatusDelivered, 6*time.Second, try(2)),
		step("m-2", schemas.StatusLimited, 7*time.Second, refused(3)),
		step("m-3", schemas.StatusLimited, 8*time.Second, refused(4)),
		step("m-4", schemas.StatusQueued, 9*time.Second, func(e *schemas.Event) {
			e.Class, e.Limit, e.Window, e.Observed = "notice", "notice", "3/60s", true
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Seq: 6, T: e.At, Revision: 1}
		}),
	}
}

// wideStory is what happens to four messages of which each takes a place of a
// limit for all of a tenant, 3/24h, or finds none.
func wideStory(now schemas.Millis) []schemas.Event {
	const to = "+6590000000"
	home, owner := new(int32(0)), new(int32(2))
	seq := int64(0)
	at := func(after time.Duration) schemas.Charge {
		return schemas.Charge{Limit: "acme", Scope: "tenant=acme", T: now.Add(after), Cost: 1}
	}
	// The owner's decisions, in partition 2.
	step := func(id string, after time.Duration, v schemas.Verdict, d schemas.Decision) schemas.Event {
		seq++
		d.Verdict, d.Partition, d.Seq, d.T, d.Revision = v, *owner, seq, now.Add(after), 1
		return schemas.Event{Kind: schemas.KindDecision, MessageID: id, Tenant: "globex", To: to, At: d.T, Decision: &d}
	}
	full := []schemas.Evidence{{Limit: "acme", Scope: "tenant=acme", Window: "3/24h", N: 3, Count: 3, Cost: 1, Oldest: now}}
	places := func(c ...schemas.Charge) []schemas.Charge { return c }
	return []schemas.Event{
		step("m-0", -25*time.Hour, schemas.VerdictCharge, schemas.Decision{Charges: places(at(-25 * time.Hour)), Onward: home}), // has left
		step("m-6", 10*time.Second, schemas.VerdictCharge, schemas.Decision{Charges: places(at(10 * time.Second)), Onward: home}),
		step("m-7", 11*time.Second, schemas.VerdictCharge, schemas.Decision{Charges: places(at(11 * time.Second)), Onward: home}),
		step("m-8", 12*time.Second, schemas.VerdictCharge, schemas.Decision{Charges: places(at(12 * time.Second)), Onward: home}),
		step("m-5", 13*time.Second, schemas.VerdictRefuse, schemas.Decision{Evidence: full, Onward: home}),
		// m-7 does not go on, and gives its place back. m-6 is tried again, and its
		// place moved; then a later owner refuses it.
		step("m-7", 14*time.Second, schemas.VerdictGiveBack, schemas.Decision{Returned: places(at(11 * time.Second))}),
		step("m-6", 15*time.Second, schemas.VerdictCharge, schemas.Decision{Returned: places(at(10 * time.Second)), Charges: places(at(15 * time.Second)), Onward: home}),
		step("m-6", 16*time.Second, schemas.VerdictGiveBack, schemas.Decision{Returned: places(at(15 * time.Second)), Restored: places(at(10 * time.Second))}),
		// Home's, in partition 0.
		{Kind: schemas.KindDecision, MessageID: "m-6", Tenant: "globex", Channel: "sms", Class: "code", To: to, At: now.Add(9900 * time.Millisecond),
			Decision: &schemas.Decision{Verdict: schemas.VerdictCharge, Seq: 7, T: now.Add(9900 * time.Millisecond), Revision: 1, Onward: owner}},
		{Kind: schemas.KindStatus, MessageID: "m-6", Tenant: "globex", Channel: "sms", Class: "code", To: to, Status: schemas.StatusQueued,
			At: now.Add(10500 * time.Millisecond), AcceptedAt: now.Add(-5 * time.Millisecond),
			Decision: &schemas.Decision{Verdict: schemas.VerdictAdmit, Seq: 8, T: now.Add(10500 * time.Millisecond), Revision: 1, Carried: places(at(10 * time.Second))}},
		{Kind: schemas.KindStatus, MessageID: "m-5", Tenant: "globex", Channel: "sms", Class: "code", To: to, Status: schemas.StatusLimited, Reason: "limited",
			At: now.Add(13 * time.Second), AcceptedAt: now.Add(-5 * time.Millisecond), Limit: "acme", Window: "3/24h", RetryAt: now.Add(24 * time.Hour),
			Decision: &schemas.Decision{Verdict: schemas.VerdictRefuse, Seq: 9, T: now.Add(13 * time.Second), Revision: 1, Evidence: full}},
	}
}

// tell writes events, and one record that is none, to one partition.
func tell(t *testing.T, seeds []string, events []schemas.Event) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(topics.Names{}.Status()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	recs := []*kgo.Record{{Value: []byte("poison")}}
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, &kgo.Record{Value: raw})
	}
	if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// answer is a query's rows as tuples in text, between bars.
func answer(t *testing.T, conn driver.Conn, query string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT toString(tuple(*)) FROM ("+query+")")
	if err != nil {
		t.Errorf("%s\n%v", query, err)
		return ""
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Errorf("%s\n%v", query, err)
	}
	return strings.Join(out, "|")
}
