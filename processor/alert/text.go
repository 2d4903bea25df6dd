package alert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirhq/weir/schemas"
)

// Item is one line of a notice, and one object of a webhook's data.items.
type Item struct {
	Event      string           `json:"event"`
	State      ItemState        `json:"state"`
	Limit      string           `json:"limit,omitempty"`
	Window     string           `json:"window,omitempty"`
	Provider   string           `json:"provider,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	Process    string           `json:"process,omitempty"`
	Stage      string           `json:"stage,omitempty"`
	Count      int64            `json:"count"`
	Since      schemas.Millis   `json:"since"`
	Until      schemas.Millis   `json:"until,omitzero"`
	Recipients int64            `json:"recipients,omitempty"`
	About      bool             `json:"recipients_estimated,omitempty"`
	Examples   []string         `json:"examples,omitempty"` // masked
	Classes    map[string]int64 `json:"classes,omitempty"`
	Tenants    map[string]int64 `json:"tenants,omitempty"`
	Detail     string           `json:"detail,omitempty"`
	Text       string           `json:"text"`
	Next       string           `json:"next"` // what to do
}

// ItemState is what an item says of its subject.
type ItemState string

const (
	Happened ItemState = "happened" // count times
	Open     ItemState = "open"     // it stands
	Resolved ItemState = "resolved" // it no longer stands
)

// Items are a notice's lines: what stands first, then what happened.
func (n *Notice) Items() []Item {
	var out []Item
	for _, st := range n.Standings {
		out = append(out, standingItem(st, n.At))
	}
	for _, s := range n.Sums {
		out = append(out, sumItem(s, n.Told[s.key()]))
	}
	return out
}

// Count is how many happenings and beginnings the notice tells of.
func (n *Notice) Count() (all int64) {
	for _, s := range n.Sums {
		all += s.Count
	}
	for _, st := range n.Standings {
		all += st.Begun
	}
	return all
}

// Events are those of the notice's items, sorted.
func (n *Notice) Events() []string {
	var out []string
	for _, s := range n.Sums {
		out = append(out, s.Event)
	}
	for _, st := range n.Standings {
		out = append(out, st.Event)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Title is the notice in a few words.
func (n *Notice) Title() string {
	if n.Test {
		return "Weir: a test of the alert " + n.Alert
	}
	items := n.Items()
	if len(items) == 1 {
		return "Weir: " + items[0].heading()
	}
	return fmt.Sprintf("Weir: %d things to know (alert %s)", len(items), n.Alert)
}

func (i *Item) heading() string {
	switch i.State {
	case Resolved:
		return i.name() + " is over"
	case Open, Happened:
	}
	return i.name()
}

// name says of what kind an item is.
func (i *Item) name() string {
	switch i.Event {
	case schemas.AlertLimitObserved:
		return "limit " + cmp.Or(i.Limit, i.Reason) + " would refuse"
	case schemas.AlertLimitRefused:
		return "limit " + cmp.Or(i.Limit, i.Reason) + " refuses"
	case schemas.AlertBreakerOpen:
		return "the breaker of " + i.Provider + " open"
	case schemas.AlertDLQRecord:
		return "messages given up on"
	case schemas.AlertSinkDifference:
		return "ClickHouse differs from the log"
	case schemas.AlertClockStall:
		if i.Reason == behindReason {
			return "a sink's clock is behind"
		}
		return "a clock is ahead, its worker stands still"
	case schemas.AlertStageStuck:
		return i.Stage + " is stuck"
	case schemas.AlertProviderStalled:
		return "no calls to " + i.Provider
	case schemas.AlertAudit:
		if i.Reason == behindReason {
			return "the audit has stopped"
		}
		return "the audit found a violation"
	case schemas.AlertLag:
		return i.Stage + " is behind"
	}
	return i.Event
}

func sumItem(s *Sum, told schemas.Millis) Item {
	i := Item{
		Event: s.Event, State: Happened, Limit: s.Limit, Window: s.Window, Provider: s.Provider, Reason: s.Reason,
		Count: s.Count, Since: s.First, Until: s.Last, Examples: s.Examples, Classes: s.Classes, Tenants: s.Tenants,
	}
	var exact bool
	i.Recipients, exact = s.Seen.Count()
	i.About = !exact
	var b strings.Builder
	messages := plural(s.Count, "message")
	if told != 0 {
		messages = plural(s.Count, "more message")
	}
	when := " at " + clock(s.First)
	if since := cmp.Or(told, s.First); s.Count > 1 || told != 0 {
		when = fmt.Sprintf(" in %s, since %s", span(s.Last.Sub(since)), clock(since))
	}
	switch {
	case s.Reason == othersReason && s.Event != schemas.AlertDLQRecord:
		fmt.Fprintf(&b, "Other limits: %s%s", messages, when)
	case s.Event == schemas.AlertLimitObserved:
		fmt.Fprintf(&b, "Limit %s (%s) would have refused %s%s. It only observes: %s sent", s.Limit, s.Window, messages, when, was(s.Count))
	case s.Event == schemas.AlertLimitRefused:
		fmt.Fprintf(&b, "Limit %s (%s) refused %s%s", s.Limit, s.Window, messages, when)
	case s.Event == schemas.AlertDLQRecord:
		fmt.Fprintf(&b, "Given up on %s%s, reason %s", messages, when, s.Reason)
		if s.Provider != "" {
			fmt.Fprintf(&b, ", provider %s", s.Provider)
		}
	default:
		fmt.Fprintf(&b, "%s: %s%s", s.Event, messages, when)
	}
	if i.Recipients > 0 {
		about := ""
		if i.About {
			about = "about "
		}
		fmt.Fprintf(&b, ". To %s%s", about, plural(i.Recipients, "recipient"))
		if len(s.Examples) > 0 {
			such := ""
			if i.Recipients > int64(len(s.Examples)) {
				such = "such as "
			}
			fmt.Fprintf(&b, ": %s%s", such, strings.Join(s.Examples, ", "))
		}
	}
	b.WriteString(names(". Class ", s.Classes))
	b.WriteString(names(". Tenant ", s.Tenants))
	b.WriteString(".")
	i.Text, i.Next = b.String(), next(s.Subject)
	return i
}

func standingItem(st *Standing, now schemas.Millis) Item {
	i := Item{
		Event: st.Event, State: Open, Provider: st.Provider, Reason: st.Reason, Process: st.Process, Stage: st.Stage,
		Count: st.Begun, Since: st.Since, Detail: st.Detail, Next: next(st.Subject),
	}
	what := ""
	switch st.Event {
	case schemas.AlertBreakerOpen:
		what = "The breaker of provider " + st.Provider
	case schemas.AlertSinkDifference:
		what = "ClickHouse and the log differ, says the sink in slot " + st.Process + ". It"
		if st.Reason == failingReason {
			what = "Inserts into ClickHouse fail, says the sink in slot " + st.Process + ". This"
		}
	case schemas.AlertClockStall:
		what = "The clock of the admission worker in slot " + st.Process
		if st.Reason == behindReason {
			what = "The clock of the sink in slot " + st.Process
		}
	case schemas.AlertStageStuck:
		what = "Stage " + st.Stage + " of the process in slot " + st.Process
	case schemas.AlertProviderStalled:
		what = "Provider " + st.Provider
	case schemas.AlertAudit:
		what = "The last audit"
		if st.Reason == behindReason {
			what = "The audit that follows the logs"
		}
	case schemas.AlertLag:
		what = "Stage " + st.Stage
	default:
		what = st.Event
	}
	switch {
	case st.On:
		verb := map[string]string{
			schemas.AlertBreakerOpen: "is open", schemas.AlertClockStall: "is ahead of the broker's, so it decides nothing",
			schemas.AlertStageStuck: "has had work and has committed nothing", schemas.AlertLag: "has been behind", schemas.AlertProviderStalled: "has not been called although messages wait", schemas.AlertAudit: "has found a violation",
		}[st.Event]
		switch {
		case st.Event == schemas.AlertAudit && st.Reason == behindReason:
			verb = "has judged nothing"
		case st.Reason == behindReason:
			verb = "is behind the broker's"
		}
		i.Text = fmt.Sprintf("%s %s since %s (%s)", what, cmp.Or(verb, "has stood"), clock(st.Since), span(now.Sub(st.Since)))
		if st.Told && st.Begun > 0 {
			i.Text += "; it was over, and began again " + times(st.Begun)
		} else if st.Begun > 1 {
			i.Text += "; it began " + times(st.Begun)
		}
	default:
		i.State, i.Until = Resolved, st.Until
		verb := map[string]string{schemas.AlertBreakerOpen: "is closed again", schemas.AlertClockStall: "is right again", schemas.AlertStageStuck: "is well again", schemas.AlertLag: "is up to date again", schemas.AlertProviderStalled: "is called again, or nothing waits for it,", schemas.AlertAudit: "found no violation"}[st.Event]
		if st.Event == schemas.AlertAudit && st.Reason == behindReason {
			verb = "judges again, or was stopped,"
		}
		i.Text = fmt.Sprintf("Resolved: %s %s since %s, after %s", what, cmp.Or(verb, "is over"), clock(st.Until), span(st.Until.Sub(st.Since)))
		if st.Begun > 1 {
			i.Text += "; it began " + times(st.Begun)
		}
		i.Next = "nothing"
	}
	switch {
	case st.Detail == "":
	case !st.On:
		i.Text += "; it was: " + st.Detail
	default:
		i.Text += ": " + st.Detail
	}
	i.Text += "."
	return i
}

// next says what to do about a subject.
func next(s Subject) string {
	switch s.Event {
	case schemas.AlertLimitObserved:
		return "weir limits try -f policy.yaml --since 7d says what the limit would refuse; mode: enforce makes it refuse"
	case schemas.AlertLimitRefused:
		return "weir tail --status limited, or --status deferred where the limit lets messages wait"
	case schemas.AlertBreakerOpen:
		return "weir status"
	case schemas.AlertDLQRecord:
		if s.Reason == othersReason {
			return "weir dlq list"
		}
		return "weir dlq list --reason " + s.Reason
	case schemas.AlertSinkDifference:
		return "weir status, then the sink's log: it names the range that differs or the error of the insert"
	case schemas.AlertClockStall:
		if s.Reason == behindReason {
			return "put that machine's clock right (chronyc tracking): until then it takes over ranges that other sinks planned for longer than their tokens are sure to be remembered"
		}
		return "put that machine's clock right (chronyc tracking); requests wait meanwhile and nothing is decided wrongly"
	case schemas.AlertStageStuck:
		return "the runbook's WeirStageStuck: the log of that process names the failure, and weir skip ends a record that cannot be read"
	case schemas.AlertProviderStalled:
		return "weir status; the runbook's WeirLaneStopped"
	case schemas.AlertAudit:
		if s.Reason == behindReason {
			return "the runbook's WeirAuditStopped: start weir audit --follow again; its log says what it waited for, if it has one"
		}
		return "the runbook's WeirAuditViolated: keep the logs, and run weir audit, which lists every violation"
	case schemas.AlertLag:
		return "weir status"
	}
	return ""
}

func was(n int64) string {
	if n == 1 {
		return "it was"
	}
	return "they were"
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// names lists what was counted, the most first; nothing when all is "default".
func names(before string, m map[string]int64) string {
	if len(m) == 0 || len(m) == 1 && m[schemas.DefaultClass] > 0 {
		return ""
	}
	all := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b))
	})
	if len(all) == 1 {
		return before + all[0]
	}
	for i, name := range all {
		all[i] = fmt.Sprintf("%s (%d)", name, m[name])
	}
	return before + strings.Join(all, ", ")
}

func clock(at schemas.Millis) string { return at.Time().Format("2006-01-02 15:04:05 UTC") }

// span is a duration as people say it.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int64((d+time.Second-1)/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int64(d.Round(time.Minute)/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int64(d.Round(time.Hour)/time.Hour))
	}
	return fmt.Sprintf("%d days", int64(d/(24*time.Hour)))
}
