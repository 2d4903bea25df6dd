package warehouse

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	schema "github.com/weirhq/weir/schemas/clickhouse"
)

// Unlike is one place where a table does not have what status_events and decisions
// say. Two that are equal are the same one, found again.
type Unlike struct {
	Table  string
	Minute int64  // in Unix seconds
	Of     string // the message, where a table has rows of messages
	Has    string
	Want   string
	Rows   int64 // that are missing or too many; 1 for a message
}

// What Alike reads of messages at most, about. Tables by minute it compares whole.
const (
	samples = 2000
	// before is how old a message may be of which it expects every event.
	before = 24 * time.Hour
)

// ended are the statuses with which a message ends, receipts aside.
const ended = "'sent', 'failed', 'unknown', 'limited', 'suppressed', 'expired', 'cancelled', 'rejected', 'duplicate'"

// Alike compares what Weir's other tables hold of some minutes (by at) with
// status_events and decisions: tables by minute in whole, suppression_events too,
// and those with rows of messages by a sample of some 2,000 of them. (The view
// messages is read from status_events itself.) It reads the
// days of these minutes and no others, so minutes that are far apart are dear.
//
// A block that is just being inserted is in some tables and not yet in others. So
// only what is found again later is a difference. On a cluster each question may come to another
// replica: one that lacks what was inserted ten seconds before answers with an error.
func Alike(ctx context.Context, conn driver.Conn, cluster string, minutes []int64) ([]Unlike, error) {
	if len(minutes) == 0 {
		return nil, nil
	}
	in := make([]string, len(minutes))
	for i, m := range minutes {
		in[i] = strconv.FormatInt(m, 10)
	}
	a := alike{conn: conn, from: slices.Min(minutes), to: slices.Max(minutes) + 60, in: strings.Join(in, ", ")}
	if cluster != "" {
		a.whole = " AND " + notBehind + " = 0"
	}
	statuses, err := a.byMinute(ctx)
	if err != nil {
		return nil, fmt.Errorf("compare tables by minute: %w", err)
	}
	if err := a.byMessage(ctx, 1+statuses/(5*samples)); err != nil {
		return nil, fmt.Errorf("compare tables of messages: %w", err)
	}
	return a.found, nil
}

// notBehind is 0 on a replica that has in each table what is older than ten seconds, and an error
// on any other. Replicas take a block and its token in one step; yet one that was killed may
// have noted a part that it never wrote.
var notBehind = `(SELECT throwIf(count() < ` + strconv.Itoa(len(schema.Filled)) + ` OR max(absolute_delay) > 10 OR max(is_readonly OR is_session_expired) != 0, 'this replica has not all yet')
	FROM system.replicas WHERE database = currentDatabase() AND table IN ('` + strings.Join(schema.Filled, "', '") + `'))`

// Whole is a condition of a question that only a replica answers which has all that was inserted: any
// other has an error. Without a cluster it is always true.
func Whole(cluster string) string {
	if cluster == "" {
		return "1"
	}
	return `(SELECT throwIf(count() < ` + strconv.Itoa(len(schema.Filled)) + ` OR max(is_readonly OR is_session_expired) != 0 OR sum(inserts_in_queue) > 0
			OR min(log_pointer > log_max_index OR (log_pointer = 0 AND log_max_index = 0)) = 0, 'this replica has not all yet')
		FROM system.replicas WHERE database = currentDatabase() AND table IN ('` + strings.Join(schema.Filled, "', '") + `')) = 0`
}

type alike struct {
	conn     driver.Conn
	from, to int64
	in       string // the minutes
	whole    string // the condition that the replica has all
	found    []Unlike
}

func moment(unix int64) string { return fmt.Sprintf("toDateTime64(%d, 3, 'UTC')", unix) }

// within says that a column of times is in one of the minutes.
func (a *alike) within(at string) string {
	return fmt.Sprintf("%[1]s >= %[2]s AND %[1]s < %[3]s AND toUnixTimestamp(toStartOfMinute(%[1]s)) IN (%[4]s)%[5]s", at, moment(a.from), moment(a.to), a.in, a.whole)
}

func (a *alike) unlike(table string, minute int64, has, want int64) {
	if has == want {
		return
	}
	rows := want - has
	if rows < 0 {
		rows = -rows
	}
	a.found = append(a.found, Unlike{Table: table, Minute: minute, Has: fmt.Sprint(has), Want: fmt.Sprint(want), Rows: rows})
}

// byMinute compares counts, and returns how many statuses there are.
func (a *alike) byMinute(ctx context.Context) (statuses int64, err error) {
	// Of a person who was erased rows without content stay in status_events, so that
	// decisions may have more there, and what limits counted is in decisions only.
	rows, err := a.conn.Query(ctx, `
		SELECT toUnixTimestamp(m), sum(x[1]), sum(x[2]), sum(x[3]), sum(x[4]), sum(x[5]), sum(x[6]), sum(x[7]), sum(x[8]), sum(x[9]), sum(x[10]), sum(x[11]) FROM (
			SELECT toStartOfMinute(at) AS m, arrayMap(n -> toInt64(n), [countIf(kind = 'status'), 0, countIf(decision_verdict != ''), 0, countIf(reason = 'erased'), 0, 0, 0, 0, 0, 0]) AS x
			FROM status_events WHERE `+a.within("at")+` GROUP BY m
			UNION ALL
			SELECT toStartOfMinute(at) AS m, arrayMap(n -> toInt64(n), [0, 0, 0, countIf(kind = 'status'), 0,
				sumIf(length(charges.limit) + length(carried.limit), verdict IN ('admit', 'move', 'record')), 0,
				countIf(kind = 'status' AND limit != '' AND (verdict IN ('refuse', 'defer') OR observed)), 0,
				countIf(kind = 'decision' AND verdict = 'suppress' AND reason IN ('suppress', 'unsuppress')), 0]) AS x
			FROM decisions WHERE `+a.within("at")+` GROUP BY m
			UNION ALL
			SELECT minute AS m, arrayMap(n -> toInt64(n), [0, sum(events), 0, 0, 0, 0, 0, 0, 0, 0, 0]) AS x
			FROM status_by_minute_state WHERE `+a.within("minute")+` GROUP BY m
			UNION ALL
			SELECT minute AS m, arrayMap(n -> toInt64(n), [0, 0, 0, 0, 0, 0, sum(places), 0, sum(refusals) + sum(observed), 0, 0]) AS x
			FROM limits_by_minute_state WHERE `+a.within("minute")+` GROUP BY m
			UNION ALL
			SELECT toStartOfMinute(at) AS m, arrayMap(n -> toInt64(n), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, uniqExact(status_partition, status_offset)]) AS x
			FROM suppression_events WHERE `+a.within("at")+` GROUP BY m)
		GROUP BY m ORDER BY m`)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var (
			m                                                                                        uint32
			events, rolled, decided, decisions, erased, places, placed, refused, counted, made, kept int64
		)
		if err := rows.Scan(&m, &events, &rolled, &decided, &decisions, &erased, &places, &placed, &refused, &counted, &made, &kept); err != nil {
			return 0, err
		}
		statuses += events
		a.unlike("status_by_minute", int64(m), rolled, events)
		if decisions < decided || decisions > decided+erased {
			a.unlike("decisions", int64(m), decisions, decided)
		}
		a.unlike("limits_by_minute", int64(m), placed+counted, places+refused)
		a.unlike("suppression_events", int64(m), kept, made)
	}
	return statuses, rows.Err()
}

// message is what tables should say of one.
type message struct {
	minute           uint32
	version, receipt uint64 // 0: not in lists; its provider gave it no id in these minutes
}

// byMessage compares one message in every.
func (a *alike) byMessage(ctx context.Context, every int64) error {
	sample := func(every int64) string {
		return fmt.Sprintf("%s AND kind = 'status' AND message_id != '' AND cityHash64(message_id) %% %d = 0", a.within("at"), every)
	}
	ids := func(every int64) string { return "(SELECT message_id FROM status_events WHERE " + sample(every) + ")" }
	since := moment(a.from - int64(before.Seconds()))
	want := make(map[string]*message)
	err := a.each(ctx, `
		SELECT e.message_id, toUnixTimestamp(toStartOfMinute(maxIf(e.at, `+a.within("e.at")+`))),
			maxIf(bitShiftLeft(toUInt64(if(e.status IN (`+ended+`), 2, 1)), 60) + bitShiftLeft(toUInt64(toUnixTimestamp64Milli(e.at)), 18) + toUInt64(e.status_offset % 262144),
				e.status NOT IN ('delivered', 'undelivered') AND isNotNull(e.accepted_at)) AS version,
			maxIf(cityHash64(toString(e.provider), e.provider_message_id), e.provider_message_id != '' AND e.status NOT IN ('delivered', 'undelivered') AND `+a.within("e.at")+`) AS receipt
		FROM status_events AS e
		WHERE e.at >= `+since+` AND e.kind = 'status' AND e.message_id IN `+ids(every)+`
		GROUP BY e.message_id HAVING min(e.accepted_at) >= `+since,
		func(rows driver.Rows) error {
			var id string
			m := new(message)
			if err := rows.Scan(&id, &m.minute, &m.version, &m.receipt); err != nil {
				return err
			}
			want[id] = m
			return nil
		})
	if err != nil || len(want) == 0 {
		return err
	}

	// In the lists messages stand by when they were accepted, and by recipient: an id may
	// be of several.
	of := func(every int64) string {
		return " FROM status_events WHERE at >= " + since + " AND kind = 'status' AND message_id IN " + ids(every) + ")"
	}
	lists := []struct {
		table, where string
		every        int64
	}{
		{"messages_by_time", "tenant IN (SELECT if(tenant = '', 'default', tenant)" + of(every), every},
		// Each recipient is somewhere else: fewer of them.
		{"messages_by_recipient", "(tenant, `to`) IN (SELECT if(tenant = '', 'default', tenant), `to`" + of(4*every), 4 * every},
	}
	for _, l := range lists {
		sampled := make(map[string]bool)
		err := a.each(ctx, "SELECT DISTINCT message_id FROM status_events WHERE "+sample(l.every), func(rows driver.Rows) error {
			var id string
			err := rows.Scan(&id)
			sampled[id] = true
			return err
		})
		if err != nil {
			return err
		}
		has := make(map[string]string)
		err = a.each(ctx, "SELECT message_id, max(ver) FROM "+l.table+" WHERE accepted_at >= "+since+" AND "+l.where+" AND message_id IN "+ids(l.every)+" GROUP BY message_id", func(rows driver.Rows) error {
			var id string
			var ver uint64
			err := rows.Scan(&id, &ver)
			has[id] = fmt.Sprint(ver)
			return err
		})
		if err != nil {
			return err
		}
		a.compare(l.table, want, has, func(id string, m *message) string {
			if m.version == 0 || !sampled[id] {
				return ""
			}
			return fmt.Sprint(m.version)
		})
	}

	known := make(map[uint64]bool)
	err = a.each(ctx, `
		SELECT DISTINCT id FROM messages_by_provider_id WHERE id IN (
			SELECT cityHash64(toString(provider), provider_message_id) FROM status_events WHERE provider_message_id != '' AND `+sample(every)+`)`,
		func(rows driver.Rows) error {
			var id uint64
			err := rows.Scan(&id)
			known[id] = true
			return err
		})
	if err != nil {
		return err
	}
	handed := make(map[string]string)
	for id, m := range want {
		if known[m.receipt] {
			handed[id] = "there"
		}
	}
	a.compare("messages_by_provider_id", want, handed, func(_ string, m *message) string {
		if m.receipt == 0 {
			return ""
		}
		return "there"
	})
	return nil
}

// compare notes where a table has something else of a message than expected; what
// is not expected may be there.
func (a *alike) compare(table string, want map[string]*message, has map[string]string, expected func(string, *message) string) {
	for id, m := range want {
		if w := expected(id, m); w != "" && has[id] != w {
			a.found = append(a.found, Unlike{Table: table, Minute: int64(m.minute), Of: id, Has: has[id], Want: w, Rows: 1})
		}
	}
}

func (a *alike) each(ctx context.Context, query string, take func(driver.Rows) error) error {
	rows, err := a.conn.Query(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := take(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
