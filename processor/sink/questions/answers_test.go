package questions_test

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/schemas"
)

// hashKey keys recipient_hash in the world.
const hashKey = "key"

// The answers are worked out from what has happened, message by message, in plain
// Go: nothing of the queries' is used, and nothing that an engine said.
//
// A row is its cells, with tabs between. A cell that begins with ~ is a number
// between two others, since ClickHouse estimates quantiles.
var answers = map[string]func(w *world) []string{
	"What has happened, by class": func(w *world) []string {
		n := counted{}
		for _, e := range w.within(day) {
			n.add(1, key(e.Class, status(e.Status)))
		}
		return n.rows()
	},
	"One message, step by step": func(w *world) []string {
		var out []string
		for _, e := range w.lives["m-1"] {
			out = append(out, cells(at(e.At), e.Status, e.Attempt, e.Provider, e.Reason, e.ErrorCode, e.Error, e.Limit, e.Window, maybe(e.RetryAt)))
		}
		return out
	},
	"Where it stands now": func(w *world) []string {
		m := w.lives["m-1"] // queued, sending, retrying, queued, sending, sent, delivered
		return []string{cells("delivered", "receipt", 2, "aliyun", at(m[0].AcceptedAt), at(m[0].At), at(m[5].At), at(m[6].At), at(m[5].At))}
	},
	"Who is suppressed, until when and why": func(w *world) []string {
		latest := map[string]*schemas.Event{}
		for _, e := range w.suppressions() {
			latest[key(e.Tenant, e.To, e.Channel, e.Class)] = e // the log is in order
		}
		var out []string
		for scope, e := range latest {
			if e.Reason == "suppress" && (e.RetryAt == 0 || after(e.RetryAt, 0)) {
				out = append(out, cells(scope, maybe(e.RetryAt), e.ErrorCode, e.Provider, at(e.At)))
			}
		}
		slices.Sort(out)
		return out
	},
	"Who suppressed whom, and when": func(w *world) []string {
		var out []string
		for _, e := range w.suppressions() {
			if e.To == "+8613800000001" {
				out = append(out, cells(at(e.At), e.Reason, e.Tenant, e.Channel, e.Class, maybe(e.RetryAt), e.ErrorCode, e.Provider, e.Decision.Partition, e.Decision.Seq))
			}
		}
		return out
	},
	"A recipient's history": func(w *world) []string {
		var all []*schemas.Event
		for _, id := range w.ids {
			m := w.lives[id]
			if m[0].To == "+8613800000001" && !before(m[0].AcceptedAt, 30*day) {
				all = append(all, m...)
			}
		}
		slices.Reverse(all) // of one message and moment, the later in the log comes first
		slices.SortStableFunc(all, func(a, b *schemas.Event) int {
			return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(a.MessageID, b.MessageID))
		})
		var out []string
		for _, e := range all[:100] {
			out = append(out, cells(at(e.At), e.MessageID, e.Class, e.Status, e.Attempt, e.Provider, e.Reason, e.ErrorCode, e.Limit, e.Window, maybe(e.RetryAt)))
		}
		return out
	},
	"A provider's id, back to the message": func(*world) []string { return []string{"m-1\tacme\t+8613800000001"} },
	"Messages a day, by sender and template": func(w *world) []string {
		n := counted{}
		for _, e := range w.within(7 * day) {
			if e.Status.End() {
				n.add(1, key(e.At.Time().Format(time.DateOnly), e.Tenant, e.Class, e.Template), e.Status == schemas.StatusSent)
			}
		}
		return n.rows()
	},
	"RetryCount >= 3": func(w *world) []string {
		type late struct {
			at  schemas.Millis
			id  string
			row string
		}
		var all []late
		for _, id := range w.ids {
			for _, e := range w.lives[id] {
				if e.Status == schemas.StatusRetrying && e.Attempt == 3 && !before(e.At, day) {
					all = append(all, late{e.At, id, cells(id, e.To, 3, e.ErrorCode, at(e.At))})
				}
			}
		}
		slices.SortFunc(all, func(a, b late) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.id, b.id)) })
		var out []string
		for _, l := range all {
			out = append(out, l.row)
		}
		return out[:min(100, len(out))]
	},
	"What the legacy system had in MessageRecords": func(w *world) []string {
		type record struct {
			created schemas.Millis
			id, row string
		}
		var all []record
		for _, id := range w.ids {
			var created, sent, ended schemas.Millis
			attempt, to, why, status := 0, "", "\\N", schemas.StatusAccepted
			for _, e := range w.lives[id] {
				attempt, to, created = max(attempt, e.Attempt), cmp.Or(to, e.To), cmp.Or(created, e.AcceptedAt)
				if e.Status.Rank() >= status.Rank() {
					status = e.Status
				}
				if e.Status == schemas.StatusSending {
					sent = e.At
				}
				if e.Status.End() {
					ended = cmp.Or(ended, e.At)
				}
				if is := legacy.StatusOf(e.Status); is == legacy.TaskRetrying || is == legacy.TaskFailed {
					why = cmp.Or(e.Error, e.Reason, string(e.Status))
				}
			}
			retried, is := attempt-1, legacy.StatusOf(status)
			if is == legacy.TaskQueued || is == legacy.TaskRetrying {
				retried = attempt
			}
			if is == legacy.TaskDone {
				why = "\\N"
			}
			when := func(m schemas.Millis) string {
				if m == 0 {
					return "\\N"
				}
				return at(m)
			}
			if retried >= 3 {
				all = append(all, record{created, id, cells(id, to, string(is), retried, why, at(created), when(sent), when(ended))})
			}
		}
		slices.SortFunc(all, func(a, b record) int { return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(a.id, b.id)) })
		var out []string
		for _, r := range all[:min(10, len(all))] {
			out = append(out, r.row)
		}
		return out
	},
	"Messages that have not ended": func(w *world) []string {
		var all []*schemas.Event
		for _, m := range w.lives {
			var last *schemas.Event
			ended := false
			for _, e := range m {
				if e.AcceptedAt != 0 {
					last, ended = e, ended || e.Status.End()
				}
			}
			if !ended && !before(last.AcceptedAt, 3*day) && !after(last.AcceptedAt, 10*time.Minute) {
				all = append(all, last)
			}
		}
		slices.SortFunc(all, func(a, b *schemas.Event) int {
			return cmp.Or(cmp.Compare(a.AcceptedAt, b.AcceptedAt), cmp.Compare(a.MessageID, b.MessageID))
		})
		var out []string
		for _, e := range all {
			out = append(out, cells(e.MessageID, e.Tenant, e.Class, e.Status, at(e.AcceptedAt)))
		}
		return out[:min(100, len(out))]
	},
	"Delivery rate by provider, country and hour": func(w *world) []string {
		n := counted{}
		for _, e := range w.within(day) {
			sent, failed, delivered := e.Status == schemas.StatusSent, e.Status == schemas.StatusFailed, e.Status == schemas.StatusDelivered
			if sent || failed || delivered {
				n.add(0, key(at(e.At)[:13]+":00:00", e.Provider, country(e.To)), sent, failed, delivered)
			}
		}
		return n.rowsWith(func(c []int) string {
			sent, failed, delivered := c[1], c[2], c[3]
			return cells(sent, failed, delivered, ratio(sent, sent+failed, 3), ratio(delivered, sent, 3))
		})
	},
	"Time to send": func(w *world) []string {
		took := spread{}
		for _, e := range w.within(day) {
			if e.Status == schemas.StatusSent {
				took.add(e.Class, int64(e.At-e.AcceptedAt))
			}
		}
		return took.rows(near)
	},
	"Time to deliver": func(w *world) []string {
		took := spread{}
		for _, m := range w.lives {
			sent, delivered := first(m, day, schemas.StatusSent), first(m, day, schemas.StatusDelivered)
			if sent != nil && delivered != nil {
				took.add(sent.Provider, int64(delivered.At-sent.AcceptedAt))
			}
		}
		return took.rows(exact)
	},
	"Queue time": func(w *world) []string {
		took := spread{}
		for _, m := range w.lives {
			queued, called := first(m, day, schemas.StatusQueued), first(m, day, schemas.StatusSending)
			if queued != nil && called != nil && called.Attempt == 1 {
				took.add(key(called.Provider, called.Class), int64(called.At-queued.At))
			}
		}
		return took.rows(exact)
	},
	"The last hour, minute by minute": func(w *world) []string {
		n := counted{}
		for _, e := range w.within(time.Hour) {
			s := e.Status
			n.add(0, at(e.At)[:16]+":00", s == schemas.StatusQueued, s == schemas.StatusSent, s == schemas.StatusDelivered, s == schemas.StatusRetrying,
				s == schemas.StatusFailed || s == schemas.StatusUnknown, s == schemas.StatusLimited)
		}
		return n.rowsWith(func(c []int) string { return cells(c[1], c[2], c[3], c[4], c[5], c[6]) })
	},
	"This hour against the same hour of the last 7 days": func(w *world) []string {
		now, usual := map[schemas.Status]int{}, map[schemas.Status]int{}
		for _, e := range w.within(8 * day) {
			if e.At.Time().Hour() != 11 || e.At.Time().Minute() < 30 {
				if e.At.Time().Hour() != 12 || e.At.Time().Minute() >= 30 {
					continue
				}
			}
			if before(e.At, time.Hour) {
				usual[e.Status]++
			} else {
				now[e.Status]++
			}
		}
		var out []string
		for _, s := range schemas.Statuses {
			if now[s]+usual[s] > 0 {
				out = append(out, cells(s, now[s], number(math.Round(float64(usual[s])/7*100)/100)))
			}
		}
		return out
	},
	"The slowest minutes": func(w *world) []string {
		slow := spread{}
		for _, e := range w.within(day) {
			if e.Status == schemas.StatusSent {
				slow.add(key(at(e.At)[:16]+":00", e.Provider), int64(e.At-e.AcceptedAt))
			}
		}
		// Of up to ten values, the slowest is the 95th percentile.
		keys := make([]string, 0, len(slow))
		for k, took := range slow {
			if len(took) > 10 {
				panic("the world is too busy for this answer")
			}
			slices.Sort(took)
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(a, b string) int {
			return cmp.Or(cmp.Compare(slow[b][len(slow[b])-1], slow[a][len(slow[a])-1]), cmp.Compare(a, b))
		})
		var out []string
		for _, k := range keys[:10] {
			out = append(out, cells(k, len(slow[k]), slow[k][len(slow[k])-1]))
		}
		return out
	},
	"Messages that a retry saved": func(w *world) []string {
		n := counted{}
		for _, e := range w.within(7 * day) {
			if e.Status == schemas.StatusSent && e.Attempt > 1 {
				n.add(1, key(e.Class, e.Provider, e.Attempt))
			}
		}
		return n.mostFirst(99)
	},
	"Which providers refuse, and why": func(w *world) []string {
		text, ids := map[string]string{"": "", "absent": "the phone was off"}, map[string]map[string]bool{}
		n := counted{}
		for _, e := range w.within(day) {
			if slices.Contains([]schemas.Status{schemas.StatusFailed, schemas.StatusRetrying, schemas.StatusUndelivered, schemas.StatusUnknown}, e.Status) {
				said, ok := text[e.ErrorCode]
				if !ok {
					said = "the provider says " + e.ErrorCode
				}
				k := key(e.Provider, status(e.Status), e.ErrorCode, said)
				n.add(1, k)
				if ids[k] == nil {
					ids[k] = map[string]bool{}
				}
				ids[k][e.MessageID] = true
			}
		}
		rows := n.mostFirst(20)
		for i, row := range rows { // the number of messages goes last
			k := row[:strings.LastIndex(row, "\t")]
			for full := range ids {
				if bare(full) == k {
					rows[i] += "\t" + strconv.Itoa(len(ids[full]))
				}
			}
		}
		return rows
	},
	"Receipts that never came": func(w *world) []string {
		n := counted{}
		for _, m := range w.lives {
			sent := first(m, day, schemas.StatusSent)
			if sent == nil || after(sent.At, time.Hour) || sent.At == schemas.MillisOf(noon.Add(-time.Hour)) {
				continue
			}
			delivered, undelivered := first(m, day, schemas.StatusDelivered) != nil, first(m, day, schemas.StatusUndelivered) != nil
			n.add(1, sent.Provider, delivered, undelivered && !delivered, !undelivered && !delivered)
		}
		return n.rows()
	},
	"What refused, and how often": func(w *world) []string {
		n := counted{}
		for _, e := range w.within(day) {
			if e.Limit != "" {
				n.add(0, key(e.Limit, e.Window), !e.Observed, e.Observed)
			}
		}
		rows := n.rowsWith(func(c []int) string { return cells(c[1], c[2]) })
		slices.SortStableFunc(rows, func(a, b string) int {
			x, y := strings.Split(a, "\t"), strings.Split(b, "\t")
			return cmp.Or(cmp.Compare(num(y[2]), num(x[2])), cmp.Compare(num(y[3]), num(x[3])))
		})
		return rows
	},
	"Which limit would have hit": func(w *world) []string {
		n, who := counted{}, map[string]map[string]bool{}
		for _, e := range w.within(7 * day) {
			if e.Observed {
				k := key(e.At.Time().Format(time.DateOnly), "seven", "7/3600s", e.Class)
				n.add(1, k)
				if who[k] == nil {
					who[k] = map[string]bool{}
				}
				who[k][e.To] = true
			}
		}
		rows := n.rows()
		for i, r := range rows {
			rows[i] += "\t" + strconv.Itoa(len(who[r[:strings.LastIndex(r, "\t")]]))
		}
		return rows
	},
	"Who is refused most": func(w *world) []string {
		n, free := counted{}, map[string]schemas.Millis{}
		for _, e := range w.within(day) {
			if e.Status == schemas.StatusLimited {
				k := key(e.To, e.Class)
				n.add(1, k)
				free[k] = max(free[k], e.RetryAt)
			}
		}
		rows := n.mostFirst(20)
		for i, r := range rows {
			rows[i] += "\t" + at(free[r[:strings.LastIndex(r, "\t")]])
		}
		return rows
	},
	"Who gets most": func(w *world) []string {
		type got struct {
			hash                    uint64
			messages, sent, limited int
		}
		by := map[string]*got{}
		for _, e := range w.within(day) {
			if !e.Status.End() {
				continue
			}
			g := by[e.To]
			if g == nil {
				mac := hmac.New(sha256.New, []byte(hashKey))
				mac.Write([]byte(e.To))
				g = &got{hash: binary.BigEndian.Uint64(mac.Sum(nil))}
				by[e.To] = g
			}
			g.messages++
			if e.Status == schemas.StatusSent {
				g.sent++
			}
			if e.Status == schemas.StatusLimited {
				g.limited++
			}
		}
		var all []*got
		for _, g := range by {
			all = append(all, g)
		}
		slices.SortFunc(all, func(a, b *got) int { return cmp.Or(cmp.Compare(b.messages, a.messages), cmp.Compare(a.hash, b.hash)) })
		var out []string
		for _, g := range all[:20] {
			out = append(out, cells(g.hash, g.messages, g.sent, g.limited))
		}
		return out
	},
	"Why one was refused": func(w *world) []string {
		e := w.lives["m-2"][0]
		return []string{cells(at(e.At), w.parts[e], e.Decision.Seq, 1, "refuse", -1, "verify", "1/60s",
			`[{"limit":"verify","scope":"+8613800000001","window":"1/60s","n":1,"count":1,"cost":1,"oldest":"`+e.At.Add(-time.Second).String()+`"}]`)}
	},
	"What limits beyond one recipient refused": func(*world) []string {
		return []string{noon.Format(time.DateOnly) + " 11:00:00\tacme\tacme\t3/24h\t1"}
	},
	// m-2001 holds its old place, m-2003 its own.
	"How full such a limit is": func(*world) []string { return []string{"2\ttenant=acme\t2"} },
	"Cost by tenant, class and month": func(w *world) []string {
		micros := map[string]int64{"aliyun": 45_000, "tencent": 50_000, "twilio": 7_900}
		n := counted{}
		for _, e := range w.within(90 * day) { // all of it is of two months
			if cost := micros[e.Provider]; e.Status == schemas.StatusSent && cost > 0 {
				k := key(e.At.Time().Format("2006-01")+"-01", e.Tenant, e.Class, map[bool]string{true: "USD", false: "CNY"}[e.Provider == "twilio"])
				n.add(1, k)
				n[k] = append(n[k][:1:1], at0(n[k], 1)+int(cost))
			}
		}
		return n.rowsWith(func(c []int) string {
			return cells(c[0], strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%06d", c[1]/1e6, c[1]%1e6), "0"), "."))
		})
	},
	"Share of duplicates": func(w *world) []string {
		n := counted{}
		for _, e := range w.within(day) {
			if e.Status.End() {
				n.add(1, e.Tenant, e.Status == schemas.StatusDuplicate, false)
			}
		}
		for _, e := range w.events {
			if e.Kind == schemas.KindDecision && e.Reason == "repeated" && !before(e.At, day) {
				n.add(0, e.Tenant, false, true)
			}
		}
		return n.rowsWith(func(c []int) string { return cells(c[0], c[1], ratio(c[1], c[0], 4), c[2]) })
	},
	"Messages with more than one end": func(*world) []string { return []string{"m-3001\t2"} },
	"Holes in the decision log":       func(*world) []string { return []string{"0\t0", "1\t1", "2\t0"} },
	"Records that could not be decoded": func(w *world) []string {
		var out []string
		for i, said := range []string{"decode status event: unexpected character at byte 0", "unknown status"} {
			p := w.poison[i]
			offset := 0 // after the events of its partition
			for _, part := range w.parts {
				if part == p.partition {
					offset++
				}
			}
			out = append(out, cells(at(p.appended), p.partition, offset, said, len(p.value)))
		}
		return out
	},
}

const day = 24 * time.Hour

// within returns the statuses since so long before noon.
// suppressions are the decisions on them, in the order of the log.
func (w *world) suppressions() (out []*schemas.Event) {
	for _, e := range w.events {
		if e.Kind == schemas.KindDecision && e.Decision.Verdict == schemas.VerdictSuppress {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) within(d time.Duration) []*schemas.Event {
	var out []*schemas.Event
	for _, e := range w.events {
		if e.Kind == schemas.KindStatus && !before(e.At, d) {
			out = append(out, e)
		}
	}
	return out
}

// first is the earliest step of a message with a status, since so long before noon.
func first(m []*schemas.Event, d time.Duration, s schemas.Status) *schemas.Event {
	var found *schemas.Event
	for _, e := range m {
		if e.Status == s && !before(e.At, d) && (found == nil || e.At < found.At) {
			found = e
		}
	}
	return found
}

// before and after compare a moment with that so long before noon.
func before(m schemas.Millis, d time.Duration) bool { return m.Time().Before(noon.Add(-d)) }
func after(m schemas.Millis, d time.Duration) bool  { return m.Time().After(noon.Add(-d)) }

func at(m schemas.Millis) string { return m.Time().Format("2006-01-02 15:04:05.000") }

func maybe(m schemas.Millis) string {
	if m == 0 {
		return `\N`
	}
	return at(m)
}

func country(to string) string {
	switch {
	case strings.HasPrefix(to, "+86"):
		return "CN"
	case strings.HasPrefix(to, "+65"):
		return "SG"
	}
	return ""
}

// status sorts as the enum does, and is shown without what makes it so.
func status(s schemas.Status) string {
	return fmt.Sprintf("%c%s", rune(private+slices.Index(schemas.Statuses, s)), s)
}

// private begins characters that mean nothing.
const private = 0xE000

// bare leaves out what status put in for sorting.
func bare(k string) string {
	return strings.Map(func(r rune) rune {
		if r >= private && r < private+100 {
			return -1
		}
		return r
	}, k)
}

func cells(values ...any) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, "\t")
}

func key(values ...any) string { return cells(values...) }

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func num(s string) int { n, _ := strconv.Atoi(s); return n }

func ratio(a, b, digits int) string {
	if b == 0 {
		return `\N`
	}
	p := math.Pow10(digits)
	return number(math.Round(float64(a)/float64(b)*p) / p)
}

func at0(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return 0
}

// counted is how many there are by a key's cells, in all and of each kind.
type counted map[string][]int

func (n counted) add(all int, k string, kinds ...bool) {
	if n[k] == nil {
		n[k] = make([]int, 1+len(kinds))
	}
	n[k][0] += all
	for i, yes := range kinds {
		if yes {
			n[k][i+1]++
		}
	}
}

// compare orders keys cell by cell: a tab is not below every other character.
func compare(a, b string) int { return slices.Compare(strings.Split(a, "\t"), strings.Split(b, "\t")) }

func (n counted) keys() []string {
	var out []string
	for k := range n {
		out = append(out, k)
	}
	slices.SortFunc(out, compare)
	return out
}

func (n counted) rows() []string {
	return n.rowsWith(func(c []int) string {
		var out []any
		for _, v := range c {
			out = append(out, v)
		}
		return cells(out...)
	})
}

func (n counted) rowsWith(show func([]int) string) []string {
	var out []string
	for _, k := range n.keys() {
		out = append(out, bare(k)+"\t"+show(n[k]))
	}
	return out
}

func (n counted) mostFirst(limit int) []string {
	keys := n.keys()
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(n[b][0], n[a][0]) })
	var out []string
	for _, k := range keys[:min(limit, len(keys))] {
		out = append(out, bare(k)+"\t"+strconv.Itoa(n[k][0]))
	}
	return out
}

// spread is values by a key.
type spread map[string][]int64

func (s spread) add(k string, v int64) { s[k] = append(s[k], v) }

// rows are each key's number of values and its quantiles.
func (s spread) rows(quantile func(sorted []int64, level float64) string) []string {
	var out []string
	for k, v := range s {
		slices.Sort(v)
		out = append(out, cells(k, len(v), quantile(v, 0.5), quantile(v, 0.95), quantile(v, 0.99)))
	}
	slices.SortFunc(out, compare)
	return out
}

func exact(sorted []int64, level float64) string {
	return strconv.FormatInt(sorted[int(level*float64(len(sorted)))], 10)
}

// near allows the neighbours.
func near(sorted []int64, level float64) string {
	at := level * float64(len(sorted)-1)
	return fmt.Sprintf("~%d:%d", sorted[max(0, int(at)-1)], sorted[min(len(sorted)-1, int(math.Ceil(at))+1)])
}
