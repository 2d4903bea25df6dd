package erase_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/deploy/embedded/engine"
	"github.com/weirhq/weir/deploy/embedded/engine/enginetest"
	"github.com/weirhq/weir/deploy/embedded/engine/replicatest"
	"github.com/weirhq/weir/processor/erase"
	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{engine.RoleName: engine.Role, replicatest.RoleName: replicatest.Role})
	os.Exit(m.Run())
}

// database makes Weir's tables in a database of their own; the tests of a run share
// an engine.
func database(t *testing.T, addr string) driver.Conn {
	t.Helper()
	databases++
	url := fmt.Sprintf("http://%s/weir%d", addr, databases)
	if err := warehouse.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := warehouse.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

var databases int

const (
	her   = "+8613800000001"
	other = "+86138000000012" // begins with her number
	mail  = "ann+x=y@example.com"
)

// load inserts events as the sink does, from an offset on.
func load(t *testing.T, conn driver.Conn, from int64, key string, events []schemas.Event) {
	t.Helper()
	b := sink.NewBlock([]byte(key))
	for i, e := range events {
		b.Append(sink.Record{Offset: from + int64(i), Appended: e.At, Value: schemas.AppendEvent(nil, &e)})
	}
	batch, err := conn.PrepareBatch(t.Context(), schema.StatusLog.Insert())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range b.Columns() {
		if err := batch.Column(i).Append(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
}

var now = schemas.MillisOf(time.Now().Add(-time.Hour).Truncate(time.Minute))

// life is what there is of a message to somebody: places, evidence, errors.
func life(seq int64, tenant, id, to string) []schemas.Event {
	scope := strings.NewReplacer("%", "%25", ",", "%2C", "=", "%3D").Replace(to)
	at := func(n int) schemas.Millis { return now.Add(time.Duration(n) * time.Millisecond) }
	place := []schemas.Charge{{Limit: "verify", Scope: scope, T: at(1), Cost: 1}, {Limit: "pair", Scope: "recipient=" + scope + ",class=verify", T: at(1), Cost: 1}}
	wide := []schemas.Charge{{Limit: "all", Scope: "tenant=" + tenant, T: at(1), Cost: 1}}
	full := []schemas.Evidence{{Limit: "verify", Scope: scope, Window: "1/60s", N: 1, Count: 1, Cost: 1, Oldest: at(0)}}
	one := func(n int, status schemas.Status, more func(*schemas.Event)) schemas.Event {
		e := schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: tenant, Channel: "sms", Class: "verify", To: to, Status: status, At: at(n), AcceptedAt: now}
		more(&e)
		if e.Decision != nil {
			e.Decision.Seq, e.Decision.T, e.Decision.Revision = seq, e.At, 1
			seq++
		}
		return e
	}
	return []schemas.Event{
		one(1, schemas.StatusQueued, func(e *schemas.Event) {
			e.Decision = &schemas.Decision{Verdict: schemas.VerdictAdmit, Charges: place, Carried: wide}
		}),
		one(2, schemas.StatusSending, func(e *schemas.Event) { e.Provider, e.Attempt = "aliyun", 1 }),
		one(3, schemas.StatusFailed, func(e *schemas.Event) {
			e.Provider, e.Attempt, e.Error = "aliyun", 1, "no such number: "+to+"."
		}),
		one(4, "", func(e *schemas.Event) {
			e.Kind, e.Decision = schemas.KindDecision, &schemas.Decision{Verdict: schemas.VerdictGiveBack, Returned: place, Released: wide}
		}),
		one(5, "", func(e *schemas.Event) {
			e.Kind, e.Decision = schemas.KindDecision, &schemas.Decision{Verdict: schemas.VerdictRefuse, Evidence: full, Restored: place, Reinstated: place, Missing: place,
				Passed: []schemas.Ask{{Limit: "pair", Scope: "recipient=" + scope + ",class=verify", Cost: 1}}}
		}),
	}
}

// world is three persons in two tenants, one of whom another's message mentions.
func world(t *testing.T, conn driver.Conn) {
	t.Helper()
	var events []schemas.Event
	for i, m := range []struct{ tenant, id, to string }{
		{"acme", "m-1", her}, {"globex", "m-2", her}, {"acme", "m-3", other}, {"acme", "m-4", mail}, {"", "m-5", her},
	} {
		events = append(events, life(int64(3*i), m.tenant, m.id, m.to)...)
	}
	events[10].Decision.Charges = append(events[10].Decision.Charges, schemas.Charge{Limit: "by-friend", Scope: "metadata.friend=" + her, T: now, Cost: 1})
	events[12].Error = "asked by " + her
	load(t, conn, 0, "key", events[:13])
	load(t, conn, 13, "former key", events[13:])
}

func ask(t *testing.T, conn driver.Conn, query string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT toString(tuple(*)) FROM ("+query+")")
	if err != nil {
		t.Fatalf("%s: %v", query, err)
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
	return out
}

func open(t *testing.T, conn driver.Conn, p erase.Person) *erase.Store {
	t.Helper()
	s, err := erase.Open(t.Context(), conn, "", p, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func counts(t *testing.T, s *erase.Store) (out []uint64) {
	t.Helper()
	found, err := s.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		out = append(out, f.Rows)
	}
	return out
}

func still(int64, int64) {}

func mentions(t *testing.T, s *erase.Store) []erase.Mention {
	t.Helper()
	m, err := s.Mentions(t.Context(), still)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Nothing of a person is left, by any text of any table, and all of everybody
// else; what proves that nothing was lost stays.
func TestErase(t *testing.T) {
	addr := enginetest.Start(t, engine.Options{}).Addr()
	for _, tt := range []struct {
		name    string
		person  erase.Person
		found   []uint64 // decisions, by recipient, by time, by provider's id, others' text, status_events, opt-outs, which stay
		columns int      // in which the person stands before
		left    string   // recipients that are left
		ids     string   // and the messages in decisions
	}{
		{"a number", erase.Person{Keys: []string{her}}, []uint64{10, 3, 3, 0, 2, 9, 1}, 12, "+86138000000012,ann+x=y@example.com", "m-3,m-4"},
		{"of one tenant", erase.Person{Keys: []string{her}, Tenant: "globex"}, []uint64{3, 1, 1, 0, 0, 3, 0}, 12, "+8613800000001,+86138000000012,ann+x=y@example.com", "m-1,m-3,m-4,m-5"},
		{"of the default tenant", erase.Person{Keys: []string{her}, Tenant: "default"}, []uint64{3, 1, 1, 0, 0, 3, 0}, 12, "+8613800000001,+86138000000012,ann+x=y@example.com", "m-1,m-2,m-3,m-4"},
		{"an address that scopes escape", erase.Person{Keys: []string{mail}}, []uint64{3, 1, 1, 0, 0, 3, 0}, 12, "+8613800000001,+86138000000012", "m-1,m-2,m-3,m-5"},
		{"nobody", erase.Person{Keys: []string{"+8613800000009"}}, []uint64{0, 0, 0, 0, 0, 0, 0}, 0, "+8613800000001,+86138000000012,ann+x=y@example.com", "m-1,m-2,m-3,m-4,m-5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn := database(t, addr)
			world(t, conn)
			if err := conn.Exec(t.Context(), "INSERT INTO suppression_events (tenant, `to`, action, at) VALUES ('acme', '"+her+"', 'suppress', now64(3))"); err != nil {
				t.Fatal(err)
			}
			dense := ask(t, conn, "SELECT partition, seq, t, verdict, kind, class, status, length(charges.limit), length(carried.scope) FROM decisions ORDER BY seq")
			offsets := ask(t, conn, "SELECT status_offset FROM status_events ORDER BY status_offset")
			minutes := ask(t, conn, "SELECT * EXCEPT (latency, q, latency_p50, latency_p95, latency_p99) FROM status_by_minute ORDER BY ALL")
			others := "SELECT * EXCEPT (ingested_at, error) FROM status_events WHERE to NOT IN ('" + strings.Join(tt.person.Keys, "','") + "') AND to != '' AND message_id != 'm-3' ORDER BY status_offset"
			theirs := ask(t, conn, others)

			if got, err := erase.Tenants(t.Context(), conn); err != nil || !slices.Equal(got, []string{"acme", "default", "globex"}) {
				t.Errorf("tenants that have rows: %v, %v", got, err)
			}

			s := open(t, conn, tt.person)
			if diff := cmp.Diff(tt.found, counts(t, s)); diff != "" {
				t.Fatalf("found: %s", diff)
			}
			if got := mentions(t, s); len(got) != tt.columns {
				t.Fatalf("stands in %d columns, want %d: %v", len(got), tt.columns, got)
			}
			var rows, of int64
			for range 2 { // again it has nothing to do
				err := s.Erase(t.Context(), func(done, total int64) {
					if done < rows || done > total {
						t.Errorf("progress: %d rows, then %d of %d", rows, done, total)
					}
					rows, of = done, total
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := counts(t, s); slices.Max(got[:len(got)-1]) > 0 || got[len(got)-1] != tt.found[len(got)-1] {
					t.Fatalf("left: %v", got)
				}
				if got := mentions(t, s); len(got) > 0 {
					t.Fatalf("still mentioned: %v", got)
				}
			}

			want := int64(0)
			for _, n := range tt.found[:len(tt.found)-1] {
				want += int64(n)
			}
			if rows != want || of != want {
				t.Errorf("at the end %d of %d rows were erased, want %d", rows, of, want)
			}

			left := ask(t, conn, "SELECT arrayStringConcat(arraySort(groupUniqArrayIf(to, to != '')), ',') FROM status_events")
			if want := fmt.Sprintf("('%s')", tt.left); left[0] != want {
				t.Errorf("left are %s, want %s", left[0], want)
			}
			if ids := ask(t, conn, "SELECT arrayStringConcat(arraySort(groupUniqArrayIf(message_id, message_id != '' OR recipient_hash != 0)), ',') FROM decisions"); ids[0] != "('"+tt.ids+"')" {
				t.Errorf("decisions are of %s, want %s", ids[0], tt.ids)
			}
			if diff := cmp.Diff(dense, ask(t, conn, "SELECT partition, seq, t, verdict, kind, class, status, length(charges.limit), length(carried.scope) FROM decisions ORDER BY seq")); diff != "" {
				t.Errorf("the decision log: %s", diff)
			}
			if diff := cmp.Diff(offsets, ask(t, conn, "SELECT status_offset FROM status_events ORDER BY status_offset")); diff != "" {
				t.Errorf("what was loaded: %s", diff)
			}
			if diff := cmp.Diff(minutes, ask(t, conn, "SELECT * EXCEPT (latency, q, latency_p50, latency_p95, latency_p99) FROM status_by_minute ORDER BY ALL")); diff != "" {
				t.Errorf("the rollup: %s", diff)
			}
			if diff := cmp.Diff(theirs, ask(t, conn, others)); diff != "" {
				t.Errorf("everybody else: %s", diff)
			}
			// The places of limits beyond one recipient stay to be summed up.
			if n := len(ask(t, conn, "SELECT seq FROM decisions WHERE has(carried.scope, 'tenant=acme') OR position(released, 'tenant=acme') > 0")); n != 6 {
				t.Errorf("%d decisions on the tenant's limit, want 6", n)
			}
		})
	}
}

// A range that is loaded later brings rows back, and another run erases those.
func TestEraseAgain(t *testing.T) {
	conn := database(t, enginetest.Start(t, engine.Options{}).Addr())
	world(t, conn)
	for n := range int64(2) {
		s := open(t, conn, erase.Person{Keys: []string{her}})
		if err := s.Erase(t.Context(), still); err != nil {
			t.Fatal(err)
		}
		if got := mentions(t, s); len(got) > 0 {
			t.Fatalf("still mentioned: %v", got)
		}
		load(t, conn, 100*(n+1), "key", life(100*(n+1), "acme", "m-9", her))
		if got := mentions(t, s); len(got) == 0 {
			t.Fatal("what came later is not seen")
		}
	}
}

// broken is a database that breaks off before it deletes statuses.
type broken struct{ driver.Conn }

func (c broken) Exec(ctx context.Context, query string, args ...any) error {
	if strings.HasPrefix(query, "ALTER TABLE status_events DELETE") {
		return errors.New("broken off")
	}
	return c.Conn.Exec(ctx, query, args...)
}

// A run that broke off is taken up by the next, and of each offset one empty row stays.
func TestEraseBrokenOff(t *testing.T) {
	conn := database(t, enginetest.Start(t, engine.Options{}).Addr())
	world(t, conn)
	const loaded = "SELECT count(), uniqExact(status_offset), countIf(to = '" + her + "') FROM status_events"
	before := ask(t, conn, "SELECT uniqExact(status_offset) FROM status_events")
	for range 2 {
		if err := open(t, broken{conn}, erase.Person{Keys: []string{her}}).Erase(t.Context(), still); err == nil {
			t.Fatal("it did not break off")
		}
	}
	s := open(t, conn, erase.Person{Keys: []string{her}})
	if err := s.Erase(t.Context(), still); err != nil {
		t.Fatal(err)
	}
	n := strings.Trim(before[0], "()")
	if got, want := ask(t, conn, loaded)[0], fmt.Sprintf("(%s,%s,0)", n, n); got != want {
		t.Errorf("loaded are %s, want %s", got, want)
	}
	if got := mentions(t, s); len(got) > 0 {
		t.Errorf("still mentioned: %v", got)
	}
}

// What was rejected has its recipient as the request spelled it.
func TestEraseOtherSpellings(t *testing.T) {
	conn := database(t, enginetest.Start(t, engine.Options{}).Addr())
	rejected := func(id, tenant, to string) schemas.Event {
		return schemas.Event{Kind: schemas.KindStatus, MessageID: id, Tenant: tenant, To: to, Status: schemas.StatusRejected, Reason: "wrong_type", At: now, AcceptedAt: now}
	}
	load(t, conn, 0, "key", []schemas.Event{
		rejected("m-1", "acme", "+86 138 0013 8000"),
		rejected("m-2", "acme", "138-0013-8000"), // in CN
		rejected("m-3", "acme", "008613800138000"),
		rejected("m-4", "globex", "+86 (0)138 0013 8000"),
		rejected("m-5", "acme", "+65 138 0013 8000"), // somebody else's, or nobody's
		rejected("m-6", "acme", "Ann@EXAMPLE.com"),
		{Kind: schemas.KindStatus, MessageID: "m-7", Tenant: "acme", To: "aNN@example.com", Status: schemas.StatusSent, At: now, AcceptedAt: now}, // its key, from before keys ignored letter case
		rejected("m-8", "acme", "joann@example.com"),
		rejected("m-9", "acme", "HTTPS://Example.com:443/hook"),
	})
	for _, tt := range []struct {
		person erase.Person
		left   string
	}{
		{erase.Person{Keys: []string{"+8613800138000"}, Tenant: "acme"}, "m-2,m-3,m-4,m-5,m-6,m-7,m-8,m-9"},
		{erase.Person{Keys: []string{"+8613800138000"}, Regions: []string{"CN"}}, "m-5,m-6,m-7,m-8,m-9"},
		{erase.Person{Keys: []string{"Ann@example.com"}, Channel: schemas.ChannelEmail}, "m-5,m-8,m-9"},
		{erase.Person{Keys: []string{"https://example.com/hook"}}, "m-5,m-8"},
	} {
		s := open(t, conn, tt.person)
		if err := s.Erase(t.Context(), still); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"status_events", "messages_by_recipient", "messages_by_time"} {
			if got := ask(t, conn, "SELECT arrayStringConcat(arraySort(groupUniqArrayIf(message_id, message_id != '')), ',') FROM "+table); got[0] != "('"+tt.left+"')" {
				t.Errorf("%v: left in %s are %s, want %s", tt.person, table, got[0], tt.left)
			}
		}
		if got := mentions(t, s); len(got) > 0 {
			t.Errorf("still mentioned: %v", got)
		}
	}
}

// One who begins with another's number or address is somebody else.
func TestNeighbours(t *testing.T) {
	conn := database(t, enginetest.Start(t, engine.Options{}).Addr())
	world(t, conn)
	before := ask(t, conn, "SELECT charges.scope, returned, evidence, restored, passed FROM decisions WHERE message_id = 'm-3' AND NOT has(charges.limit, 'by-friend') ORDER BY seq")
	s := open(t, conn, erase.Person{Keys: []string{her}})
	if err := s.Erase(t.Context(), still); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, ask(t, conn, "SELECT charges.scope, returned, evidence, restored, passed FROM decisions WHERE message_id = 'm-3' AND NOT has(charges.limit, 'by-friend') ORDER BY seq")); diff != "" {
		t.Error(diff)
	}
	got := ask(t, conn, "SELECT charges.scope, error FROM status_events WHERE message_id = 'm-3' AND (has(charges.limit, 'by-friend') OR error != '') ORDER BY status_offset")
	want := []string{
		"(['" + other + "','recipient=" + other + ",class=verify','metadata.friend=erased'],'')",
		"([],'asked by erased')",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := ask(t, conn, "SELECT status, attempts, provider, error FROM messages WHERE message_id = 'm-3'"); len(got) != 1 || got[0] != "('failed',1,'aliyun','asked by erased')" {
		t.Errorf("the message that mentions her is %v", got)
	}
}

// TestTenantIsQuoted: a tenant's name is a text, whatever is in it.
func TestTenantIsQuoted(t *testing.T) {
	conn := database(t, enginetest.Start(t, engine.Options{}).Addr())
	load(t, conn, 0, "key", life(0, `o'hara\`, "m-1", her))
	load(t, conn, 10, "key", life(3, `acme`, "m-2", her))
	if got := counts(t, open(t, conn, erase.Person{Keys: []string{her}, Tenant: `o'hara\`})); !slices.Equal(got, []uint64{3, 1, 1, 0, 0, 3, 0}) {
		t.Errorf("found %v", got)
	}
	if got := counts(t, open(t, conn, erase.Person{Keys: []string{her}, Tenant: "' OR '' = '"})); slices.Max(got) > 0 {
		t.Errorf("found %v of nobody", got)
	}
}

// later is a database in which every list is old.
type later struct{ driver.Conn }

func (c later) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	return c.Conn.Query(ctx, strings.Replace(query, "now() - ", "now() + ", 1), args...)
}

// TestSweep: the list of a run that was killed is dropped by the next, when it is old
// and no statement is at work with it.
func TestSweep(t *testing.T) {
	conn := database(t, enginetest.Start(t, engine.Options{}).Addr())
	for _, statement := range []string{
		"CREATE TABLE erasing_old (text String) ENGINE = MergeTree ORDER BY text",
		"CREATE TABLE erasing_busy (text String) ENGINE = MergeTree ORDER BY text",
		"CREATE TABLE others (text String) ENGINE = MergeTree ORDER BY text",
		"INSERT INTO others VALUES ('a')",
		"ALTER TABLE others DELETE WHERE throwIf(text = 'a') OR text IN (SELECT text FROM erasing_busy) SETTINGS mutations_sync = 0",
	} {
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		conn driver.Conn
		want []string
	}{
		{"within the hour", conn, []string{"('erasing_busy')", "('erasing_old')"}},
		{"after it", later{conn}, []string{"('erasing_busy')"}},
	} {
		s, err := erase.Open(t.Context(), tt.conn, "", erase.Person{Keys: []string{her}}, []byte("key"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := ask(t, conn, "SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, 'erasing_') ORDER BY name"); !slices.Equal(got, tt.want) {
			t.Errorf("%s: there are %v, want %v", tt.name, got, tt.want)
		}
	}
	if err := conn.Exec(t.Context(), "KILL MUTATION WHERE database = currentDatabase() SYNC"); err != nil {
		t.Error(err)
	}
}

func TestSpell(t *testing.T) {
	for _, tt := range []struct {
		text    string
		channel schemas.Channel
		regions []string
		want    string
	}{
		{"+86 138 0013 8000", "", nil, "+86 138 0013 8000 +8613800138000"},
		{"+86 0138-0013-8000", "sms", nil, "+86 0138-0013-8000 +8613800138000"},
		{"138 0013 8000", "", []string{"CN"}, "+8613800138000 138 0013 8000"},
		{"138 0013 8000", "", nil, ""},
		{"13800138000", "", []string{"SG"}, ""},
		{"13800138000", "push", nil, "13800138000"},
		{"+861380013800", "", nil, ""}, // a digit is missing: who mistypes must not hear that nothing is left
		{"+861380013800", "sms", []string{"CN"}, ""},
		{"+861380013800", "push", nil, "+861380013800"},
		{"nobody", "sms", nil, ""},
		{"Ann@EXAMPLE.com", "email", nil, "Ann@EXAMPLE.com ann@example.com"},
		{"", "", nil, ""},
		{"a\xff", "push", nil, ""},
	} {
		t.Run(tt.text, func(t *testing.T) {
			keys, err := erase.Spell(tt.text, tt.channel, tt.regions)
			for _, w := range strings.Fields(strings.ReplaceAll(tt.want, tt.text, "")) {
				if !slices.Contains(keys, w) {
					t.Errorf("%q lacks %s: %v", keys, w, err)
				}
			}
			if (tt.want == "") != (err != nil) || tt.want != "" && !slices.Contains(keys, tt.text) {
				t.Errorf("%q, %v", keys, err)
			}
		})
	}
}
