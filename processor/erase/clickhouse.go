package erase

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/schemas"
	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// Found is what a table has of the person.
type Found struct {
	Table string `json:"table"`
	Rows  uint64 `json:"rows"`
	Fate  string `json:"fate"` // what becomes of them
}

// Mention is a column in which the person's name stands, found by its text alone.
type Mention struct {
	Table  string `json:"table"`
	Column string `json:"column"`
	Rows   uint64 `json:"rows"`
}

// Store is ClickHouse while somebody is erased. Who that is stands in a table of
// its own meanwhile, so that no statement names them: ClickHouse keeps the text of
// queries in its log and that of mutations beside the data.
type Store struct {
	conn   driver.Conn
	person Person
	list   string // the table
	on     string // ON CLUSTER, or nothing

	// everywhere is how many replicas must have what is inserted: all. 0 is none.
	everywhere uint64
}

// listPrefix begins the names of lists; one that a killed run left behind is
// dropped by the next, after this time.
const (
	listPrefix = "erasing_"
	listLife   = time.Hour
)

// Open lists the person in ClickHouse: their names, the hashes and the messages
// that are known of them. hashKey is the sink's.
//
// cluster is that of the sink, and empty for a single server. On a cluster every
// replica must be there: each rewrites its own parts by its own copy of the list, so
// one that came later would find none.
func Open(ctx context.Context, conn driver.Conn, cluster string, p Person, hashKey []byte) (*Store, error) {
	if len(p.Keys) == 0 {
		return nil, ErrNobody
	}
	var id [8]byte
	_, _ = rand.Read(id[:])
	p.Keys = slices.Clone(p.Keys)
	for _, k := range slices.Clone(p.Keys) {
		if key := recipient.Fold(k); !slices.Contains(p.Keys, key) {
			p.Keys = append(p.Keys, key)
		}
	}
	s := &Store{conn: conn, person: p, list: listPrefix + hex.EncodeToString(id[:])}
	engine := "MergeTree"
	if cluster != "" {
		if err := schema.ValidCluster(cluster); err != nil {
			return nil, err
		}
		s.on, engine = " ON CLUSTER '"+cluster+"'", "ReplicatedMergeTree"
	}
	if err := s.sweep(ctx); err != nil {
		return nil, err
	}
	if err := s.exec(ctx, "CREATE TABLE "+s.list+s.on+" (kind LowCardinality(String), text String, number UInt64) ENGINE = "+engine+" ORDER BY (kind, text, number)"); err != nil {
		return nil, errors.Join(fmt.Errorf("make the list of who is erased: %w", err), s.closeAfter(ctx))
	}
	if err := s.gather(ctx); err != nil {
		return nil, errors.Join(err, s.closeAfter(ctx))
	}
	if err := s.spelled(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("look for other spellings of who is erased: %w", err), s.closeAfter(ctx))
	}
	if err := s.fill(ctx, hashKey); err != nil {
		return nil, errors.Join(fmt.Errorf("list who is erased: %w", err), s.closeAfter(ctx))
	}
	return s, nil
}

// gather learns, on a cluster, how many replicas there are, and waits until they are
// equal: whom a replica does not know of is not listed.
func (s *Store) gather(ctx context.Context) error {
	if s.on == "" {
		return nil
	}
	if err := s.conn.QueryRow(ctx, "SELECT max(toUInt64(total_replicas)) FROM system.replicas WHERE database = currentDatabase() AND table = $1", s.list).Scan(&s.everywhere); err != nil {
		return fmt.Errorf("count the replicas: %w", err)
	}
	return s.sync(ctx)
}

// sync waits, on a cluster, until every replica has what the others had. Behind a load
// balancer the next statement may go to any.
func (s *Store) sync(ctx context.Context) error {
	if s.on == "" {
		return nil
	}
	var synced []string
	for _, w := range s.plan() {
		if slices.Contains(synced, w.table) {
			continue
		}
		if err := s.exec(ctx, "SYSTEM SYNC REPLICA"+s.on+" "+w.table+" LIGHTWEIGHT"); err != nil {
			return fmt.Errorf("wait for the replicas of %s: %w", w.table, err)
		}
		synced = append(synced, w.table)
	}
	return nil
}

func (s *Store) closeAfter(ctx context.Context) error { return s.Close(context.WithoutCancel(ctx)) }

// Close drops the list.
func (s *Store) Close(ctx context.Context) error {
	if err := s.exec(ctx, "DROP TABLE IF EXISTS "+s.list+s.on+" SYNC"); err != nil {
		return fmt.Errorf("drop the list of who is erased: %w", err)
	}
	return nil
}

// sweep drops lists that no one works with any more.
func (s *Store) sweep(ctx context.Context) error {
	rows, err := s.conn.Query(ctx, `
SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, $1) AND metadata_modification_time < now() - $2
    AND NOT arrayExists(c -> position(c, name) > 0, (SELECT groupArray(command) FROM system.mutations WHERE database = currentDatabase() AND NOT is_done))`,
		listPrefix, int(listLife.Seconds()))
	if err != nil {
		return fmt.Errorf("look for lists of former runs: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return fmt.Errorf("look for lists of former runs: %w", err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("look for lists of former runs: %w", err)
	}
	for _, name := range names {
		if s.on != "" {
			// Another replica may be at work with it still, and would be for ever.
			if err := s.kill(ctx, name); err != nil {
				return fmt.Errorf("end what a former run left: %w", err)
			}
		}
		if err := s.conn.Exec(ctx, "DROP TABLE IF EXISTS "+name+s.on+" SYNC"); err != nil {
			return fmt.Errorf("drop the list of a former run: %w", err)
		}
	}
	return nil
}

// spelled adds the person's other spellings to their names. A message that was
// rejected has its recipient as it came, since what is wrong with it may be found
// before its recipient is read. Any message to an address may have it as it came: from
// before keys ignored letter case.
func (s *Store) spelled(ctx context.Context) error {
	digits, parts := s.person.marks()
	if len(digits)+len(parts) == 0 {
		return nil
	}
	batch, err := s.conn.PrepareBatch(s.everyReplica(ctx), "INSERT INTO "+s.list+" (kind, text, number)")
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	for kind, texts := range map[string][]string{"digits": digits, "part": parts} {
		for _, text := range texts {
			if err := batch.Append(kind, text, uint64(0)); err != nil {
				return err
			}
		}
	}
	if err := batch.Send(); err != nil {
		return err
	}
	listed := func(kind string) string {
		return "(SELECT groupArray(text) FROM " + s.list + " WHERE kind = '" + kind + "')"
	}
	like := "(arrayExists(x -> endsWith(replaceRegexpAll(`to`, '[^0-9]', ''), x), " + listed("digits") + ") OR arrayExists(x -> positionCaseInsensitiveUTF8(`to`, x) > 0, " + listed("part") + "))"
	any := "(status = 'rejected' OR position(`to`, '@') > 0)"
	rows, err := s.conn.Query(quiet(ctx), "SELECT DISTINCT `to` FROM (SELECT `to`, tenant FROM status_events WHERE "+any+" UNION ALL SELECT `to`, tenant FROM messages_by_recipient WHERE "+any+" UNION ALL SELECT `to`, tenant FROM suppression_events) WHERE "+like+s.tenant())
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		if !slices.Contains(s.person.Keys, text) && s.person.is(text) {
			s.person.Keys = append(s.person.Keys, text)
		}
	}
	return rows.Err()
}

func (s *Store) fill(ctx context.Context, hashKey []byte) error {
	batch, err := s.conn.PrepareBatch(s.everyReplica(ctx), "INSERT INTO "+s.list+" (kind, text, number)")
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	strict, loose := patterns(s.person.Keys, s.person.Mailboxes)
	mac := hmac.New(sha256.New, hashKey)
	rows := [][]any{{"strict", strict, uint64(0)}, {"loose", loose, uint64(0)}}
	for _, k := range s.person.Keys {
		mac.Reset()
		mac.Write([]byte(k))
		rows = append(rows, []any{"to", k, uint64(0)}, []any{"hash", "", binary.BigEndian.Uint64(mac.Sum(nil))})
	}
	for _, r := range rows {
		if err := batch.Append(r...); err != nil {
			return err
		}
	}
	if err := batch.Send(); err != nil {
		return err
	}
	// Hashes of a former key, and messages, as the tables know them.
	if err := s.exec(ctx, "INSERT INTO "+s.list+" (kind, number) SELECT DISTINCT 'hash', recipient_hash FROM status_events WHERE "+s.theirs()+" AND recipient_hash != 0"); err != nil {
		return err
	}
	for _, t := range []string{"status_events", "messages_by_recipient", "messages_by_time"} {
		if err := s.exec(ctx, "INSERT INTO "+s.list+" (kind, text) SELECT DISTINCT 'id', message_id FROM "+t+" WHERE "+s.theirs()+" AND message_id != ''"); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) of(kind, column string) string {
	return "(SELECT " + column + " FROM " + s.list + " WHERE kind = '" + kind + "')"
}

// theirs is true of a row that has the person as its recipient.
func (s *Store) theirs() string { return "`to` IN " + s.of("to", "text") + s.tenant() }

// tenant narrows to one tenant, however it is written.
func (s *Store) tenant() string {
	if s.person.Tenant == "" {
		return ""
	}
	names := []string{quote(s.person.Tenant)}
	if s.person.Tenant == schemas.DefaultTenant {
		names = append(names, "''")
	}
	return " AND tenant IN (" + strings.Join(names, ", ") + ")"
}

func quote(v string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v) + "'"
}

// work is what is done to one table.
type work struct {
	table string
	rows  string // which rows
	fate  string
	steps []string // in order; the last makes rows false
}

// scopes are a decision's columns of places.
var scopes = []string{"returned", "missing", "passed", "restored", "released", "reinstated", "evidence"}

// plan is the whole of it. decisions come first: whose they are is known from the
// others. status_events come last, for the messages that a run that broke off has to
// find again.
func (s *Store) plan() []work {
	strict, loose := s.of("strict", "text"), s.of("loose", "text")
	in := func(column string) string { return "match(" + column + ", " + strict + ")" }
	without := func(column, pattern string) string {
		return "replaceRegexpAll(" + column + ", " + pattern + `, '\\1erased\\3')`
	}
	array := func(column string) string {
		return "`" + column + "` = arrayMap(s -> " + without("s", strict) + ", `" + column + "`)"
	}
	inArray := func(column string) string { return "arrayExists(s -> " + in("s") + ", `" + column + "`)" }

	own := "(recipient_hash IN " + s.of("hash", "number") + " OR recipient_hash = 0 AND message_id IN " + s.of("id", "text") + ")"
	any := []string{own, inArray("charges.scope"), inArray("carried.scope")}
	sets := []string{"message_id = if(" + own + ", '', message_id)", "recipient_hash = if(" + own + ", 0, recipient_hash)", array("charges.scope"), array("carried.scope")}
	for _, c := range scopes {
		any = append(any, in(c))
		sets = append(sets, c+" = "+without(c, strict))
	}
	decided := "(" + strings.Join(any, " OR ") + ")" + s.tenant()

	told := "match(error, " + loose + ") OR " + in("evidence") + " OR " + inArray("charges.scope")
	told = "NOT (" + s.theirs() + ") AND (" + told + ")" + s.tenant()

	empty := "kind = 'status' AND message_id = '' AND reason = 'erased'"
	deleted := func(table, rows string) work {
		return work{table, rows, "deleted", []string{"ALTER TABLE " + table + " DELETE WHERE " + rows}}
	}
	return []work{
		{"decisions", decided, "kept without message, recipient and scopes", []string{"ALTER TABLE decisions UPDATE " + strings.Join(sets, ", ") + " WHERE " + decided}},
		deleted("messages_by_recipient", s.theirs()),
		deleted("messages_by_time", s.theirs()),
		deleted("messages_by_provider_id", "message_id IN "+s.of("id", "text")),
		{"status_events", told, "others' messages: their text without the person", []string{
			"ALTER TABLE status_events UPDATE error = " + without("error", loose) + ", evidence = " + without("evidence", strict) + ", " + array("charges.scope") + " WHERE " + told}},
		{"status_events", s.theirs(), "deleted; an empty row of the same offset stays, so that nothing counts as lost", []string{
			"INSERT INTO status_events (kind, at, reason, status_partition, status_offset, ingested_at) SELECT 'status', at, 'erased', status_partition, status_offset, ingested_at FROM status_events WHERE " + s.theirs() +
				" AND (status_partition, status_offset) NOT IN (SELECT status_partition, status_offset FROM status_events WHERE " + empty + ")",
			"ALTER TABLE status_events DELETE WHERE " + s.theirs()}},
		{optOuts, s.theirs(), "kept on purpose: to forget an opt-out would be to write to them again", nil},
	}
}

// Tenants returns, in order, the tenants of whom there is a row that Erase may change.
func Tenants(ctx context.Context, conn driver.Conn) ([]string, error) {
	var all []string
	for _, t := range []string{"status_events", "decisions", "messages_by_recipient", "messages_by_time"} {
		all = append(all, "SELECT DISTINCT toString(tenant) AS tenant FROM "+t)
	}
	rows, err := conn.Query(quiet(ctx), "SELECT DISTINCT if(tenant = '', $1, tenant) AS name FROM ("+strings.Join(all, " UNION ALL ")+") ORDER BY name", schemas.DefaultTenant)
	if err != nil {
		return nil, fmt.Errorf("ask whose rows there are: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("ask whose rows there are: %w", err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("ask whose rows there are: %w", err)
	}
	return names, nil
}

// optOuts is the table of suppressions, which are left as the ledger's are.
const optOuts = "suppression_events"

// Find counts what is there.
func (s *Store) Find(ctx context.Context) ([]Found, error) {
	var out []Found
	for _, w := range s.plan() {
		f := Found{Table: w.table, Fate: w.fate}
		if err := s.conn.QueryRow(quiet(ctx), "SELECT count() FROM "+w.table+" WHERE "+w.rows).Scan(&f.Rows); err != nil {
			return nil, fmt.Errorf("count rows of %s: %w", w.table, err)
		}
		out = append(out, f)
	}
	return out, nil
}

// Erase does the work where Find counts anything, and waits until its parts are
// rewritten. Rows that come in the meantime are another call's. progress is called with how many
// of the rows are done.
func (s *Store) Erase(ctx context.Context, progress func(done, total int64)) error {
	found, err := s.Find(ctx)
	if err != nil {
		return err
	}
	var done, total int64
	for i, w := range s.plan() {
		if len(w.steps) > 0 {
			total += int64(found[i].Rows)
		}
	}
	for i, w := range s.plan() {
		rows := int64(found[i].Rows)
		if rows == 0 || len(w.steps) == 0 {
			continue
		}
		for _, step := range w.steps {
			if err := s.step(ctx, w.table, step, func(part float64) { progress(done+int64(part*float64(rows)), total) }); err != nil {
				return fmt.Errorf("erase from %s: %w", w.table, err)
			}
		}
		done += rows
		progress(done, total)
	}
	return nil
}

// step runs one statement. A mutation is waited for, on a cluster on every replica: the
// statement itself says when the last of them is through.
func (s *Store) step(ctx context.Context, table, statement string, progress func(part float64)) error {
	if !strings.HasPrefix(statement, "ALTER") {
		return s.exec(ctx, statement)
	}
	if s.on == "" {
		if err := s.exec(ctx, statement); err != nil {
			return err
		}
		return s.done(ctx, table, progress)
	}
	if err := s.exec(ctx, statement+" SETTINGS mutations_sync = 2"); err != nil {
		return errors.Join(fmt.Errorf("every replica must be there, and through with it, before this returns: %w", err), s.takeBack(ctx))
	}
	return nil
}

// Mentions searches every column that can hold text, in every table that stores
// anything, whether or not this package knows it; but that of opt-outs, which stays.
// progress is called with how many of the tables are done.
func (s *Store) Mentions(ctx context.Context, progress func(done, total int64)) ([]Mention, error) {
	if err := s.sync(ctx); err != nil {
		return nil, err
	}
	rows, err := s.conn.Query(ctx, `
SELECT table, name, type FROM system.columns
WHERE database = currentDatabase() AND position(type, 'String') > 0 AND default_kind NOT IN ('ALIAS', 'EPHEMERAL')
    AND table IN (SELECT name FROM system.tables WHERE database = currentDatabase() AND endsWith(engine, 'MergeTree') AND NOT startsWith(name, $1) AND name != $2)
ORDER BY table, position`, listPrefix, optOuts)
	if err != nil {
		return nil, fmt.Errorf("read the columns: %w", err)
	}
	defer rows.Close()
	columns := map[string][]string{}
	var tables []string
	narrowed := map[string]bool{}
	exprs := map[string][]string{}
	for rows.Next() {
		var table, name, kind string
		if err := rows.Scan(&table, &name, &kind); err != nil {
			return nil, fmt.Errorf("read the columns: %w", err)
		}
		if !slices.Contains(tables, table) {
			tables = append(tables, table)
		}
		value := "`" + name + "`"
		if strings.HasPrefix(kind, "AggregateFunction") {
			value = "finalizeAggregation(" + value + ")"
		}
		narrowed[table] = narrowed[table] || name == "tenant"
		columns[table] = append(columns[table], name)
		exprs[table] = append(exprs[table], "countIf(match(toString("+value+"), "+s.of("loose", "text")+"))")
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the columns: %w", err)
	}
	var out []Mention
	for i, t := range tables {
		progress(int64(i), int64(len(tables)))
		where := ""
		if narrowed[t] && s.person.Tenant != "" {
			where = " WHERE true" + s.tenant()
		}
		var counts []uint64
		if err := s.conn.QueryRow(quiet(ctx), "SELECT ["+strings.Join(exprs[t], ", ")+"] FROM "+t+where).Scan(&counts); err != nil {
			return nil, fmt.Errorf("search %s: %w", t, err)
		}
		for i, n := range counts {
			if n > 0 {
				out = append(out, Mention{t, columns[t][i], n})
			}
		}
	}
	return out, nil
}

// How a mutation is waited for: one that fails is tried again by ClickHouse, and is
// given up on here when it has failed for so long.
const (
	pollEvery = 50 * time.Millisecond
	failsFor  = time.Minute
)

// done waits until the parts of a table are rewritten. One that does not get there
// is taken back: it would wait for a list that is gone.
func (s *Store) done(ctx context.Context, table string, progress func(part float64)) error {
	fine, most := time.Now(), int64(1)
	for {
		var (
			open  uint64
			parts int64
			why   string
		)
		if err := s.conn.QueryRow(quiet(ctx), `
SELECT count(), sum(parts_to_do), max(latest_fail_reason) FROM system.mutations
WHERE database = currentDatabase() AND table = $1 AND NOT is_done AND position(command, $2) > 0`, table, s.list).Scan(&open, &parts, &why); err != nil {
			return errors.Join(fmt.Errorf("look how far it is: %w", err), s.takeBack(ctx))
		}
		switch {
		case open == 0:
			return nil
		case why == "":
			fine = time.Now()
		case time.Since(fine) > failsFor:
			return errors.Join(fmt.Errorf("ClickHouse cannot rewrite its parts: %s", why), s.takeBack(ctx))
		}
		most = max(most, parts)
		progress(float64(most-parts) / float64(most))
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), s.takeBack(ctx))
		case <-time.After(pollEvery):
		}
	}
}

func (s *Store) takeBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := s.kill(ctx, s.list); err != nil {
		return fmt.Errorf("take the rest of it back: %w", err)
	}
	return nil
}

// kill ends mutations that work with a list; those of replicated tables on every
// replica.
func (s *Store) kill(ctx context.Context, list string) error {
	return s.exec(ctx, "KILL MUTATION WHERE database = currentDatabase() AND position(command, '"+list+"') > 0 SYNC")
}

func (s *Store) exec(ctx context.Context, statement string) error {
	return s.conn.Exec(s.everyReplica(ctx), statement)
}

// everyReplica has an insert wait until every replica has its rows.
func (s *Store) everyReplica(ctx context.Context) context.Context {
	settings := maps.Clone(quietly)
	if s.everywhere > 1 {
		settings["insert_quorum"], settings["insert_quorum_parallel"] = s.everywhere, 1
	}
	return clickhouse.Context(ctx, clickhouse.WithSettings(settings))
}

// quiet keeps a statement out of ClickHouse's own log of queries.
func quiet(ctx context.Context) context.Context {
	return clickhouse.Context(ctx, clickhouse.WithSettings(quietly))
}

var quietly = clickhouse.Settings{
	"log_queries":                      0,
	"mutations_sync":                   0, // done waits, for as long as it takes
	"allow_nondeterministic_mutations": 1, // the list is the same on every replica
	"async_insert":                     0,
	"max_partitions_per_insert_block":  0,
}
