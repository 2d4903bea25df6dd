package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// documented holds a forgery to the table of docs/audit.md, which says what finds it.
func documented(t *testing.T, name string, by audit.Kind) {
	t.Helper()
	page, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	if line := fmt.Sprintf("| %s | `%s` |", name, by); !strings.Contains(string(page), line) {
		t.Errorf("docs/audit.md does not have the line\n%s", line)
	}
}

// record changes the first record that has a text in its value.
func record(has string, do func(r *kgo.Record)) func([]*kgo.Record) []*kgo.Record {
	return func(rs []*kgo.Record) []*kgo.Record {
		i := slices.IndexFunc(rs, func(r *kgo.Record) bool { return bytes.Contains(r.Value, []byte(has)) })
		if i < 0 {
			return nil
		}
		do(rs[i])
		return rs
	}
}

// rewrite replaces a text in the first record that has it in its value.
func rewrite(old, by string) func([]*kgo.Record) []*kgo.Record {
	return record(old, func(r *kgo.Record) { r.Value = bytes.Replace(r.Value, []byte(old), []byte(by), 1) })
}

// headerOf changes a header of the first record that has it.
func headerOf(key string, do func(value string) string) func([]*kgo.Record) []*kgo.Record {
	return func(rs []*kgo.Record) []*kgo.Record {
		for _, r := range rs {
			for i, h := range r.Headers {
				if h.Key == key && len(h.Value) > 0 {
					r.Headers[i].Value = []byte(do(string(h.Value)))
					return rs
				}
			}
		}
		return nil
	}
}

// without removes the first record that has a text in its value, or repeats it at the end.
func without(has string) func([]*kgo.Record) []*kgo.Record {
	return func(rs []*kgo.Record) []*kgo.Record {
		i := slices.IndexFunc(rs, func(r *kgo.Record) bool { return bytes.Contains(r.Value, []byte(has)) })
		if i < 0 {
			return nil
		}
		return slices.Delete(rs, i, i+1)
	}
}

func repeated(has string) func([]*kgo.Record) []*kgo.Record {
	return func(rs []*kgo.Record) []*kgo.Record {
		i := slices.IndexFunc(rs, func(r *kgo.Record) bool { return bytes.Contains(r.Value, []byte(has)) })
		if i < 0 {
			return nil
		}
		again := *rs[i]
		again.Timestamp = rs[len(rs)-1].Timestamp
		return append(rs, &again)
	}
}

// reported picks a lane's status.
func reported(s schemas.Status) func(*schemas.Event) bool {
	return func(e *schemas.Event) bool { return e.Status == s && e.Decision == nil }
}

// TestForgeriesAreCaught: what somebody who may write to Kafka changes in the log of a real run
// is found. Each is in the table of docs/audit.md with its finding.
func TestForgeriesAreCaught(t *testing.T) {
	l := newLive(t)
	stop := l.start()
	l.send(7, 400)
	l.settled()
	stop()
	logs := l.logs()
	journal := func(n topics.Names) string { return n.Journal("sim") }
	dispatch := func(n topics.Names) string { return n.Dispatch("sim", topics.QueueNormal) }
	later := func(ms string) string {
		at, err := time.Parse(time.RFC3339Nano, ms)
		if err != nil {
			t.Fatal(err)
		}
		return at.Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	for _, c := range []change{
		{name: "an admission has no charge", topic: topics.Names.Status, want: audit.KindCharges, do: event(verdict(schemas.VerdictAdmit), func(e *schemas.Event) { e.Decision.Charges = nil })},
		{name: "an admission has a charge in another's name", topic: topics.Names.Status, want: audit.KindCharges, do: event(verdict(schemas.VerdictAdmit), func(e *schemas.Event) { e.Decision.Charges[0].Scope += "0" })},
		{name: "a charge costs less", topic: topics.Names.Status, want: audit.KindCharges, do: event(verdict(schemas.VerdictAdmit), func(e *schemas.Event) { e.Decision.Charges[0].Cost = 0 })},
		{name: "a charge is of an hour ago", topic: topics.Names.Status, want: audit.KindCharges, do: event(verdict(schemas.VerdictAdmit), func(e *schemas.Event) { e.Decision.Charges[0].T -= 3_600_000 })},
		{name: "a decision is of an hour ago", topic: topics.Names.Status, want: audit.KindBackInTime, do: event(verdict(schemas.VerdictAdmit), func(e *schemas.Event) { e.Decision.T -= 3_600_000 })},
		{name: "a refusal says to come back earlier", topic: topics.Names.Status, want: audit.KindRetryAt, do: event(verdict(schemas.VerdictRefuse), func(e *schemas.Event) { e.RetryAt -= 1 })},
		{name: "a refund is of another's charge", topic: topics.Names.Status, want: audit.KindReturned, do: event(verdict(schemas.VerdictGiveBack), func(e *schemas.Event) { e.Decision.Returned[0].T -= 1 })},
		{name: "a decision is on another record", topic: topics.Names.Status, want: audit.KindPhantom, do: event(verdict(schemas.VerdictAdmit), func(e *schemas.Event) { e.Decision.Input.Offset += 1000 })},
		{name: "a message that failed is reported as sent", topic: topics.Names.Status, want: audit.KindOutcome, do: event(reported(schemas.StatusFailed), func(e *schemas.Event) { e.Status, e.Reason = schemas.StatusSent, "" })},
		{name: "a message that was sent is reported as failed", topic: topics.Names.Status, want: audit.KindOutcome, do: event(reported(schemas.StatusSent), func(e *schemas.Event) { e.Status, e.Reason = schemas.StatusFailed, "permanent" })},
		{name: "a report that it was sent is removed", topic: topics.Names.Status, want: audit.KindOutcome, do: without(`"status":"sent"`)},
		{name: "a report that it was sent comes twice", topic: topics.Names.Status, want: audit.KindTwoEnds, do: repeated(`"status":"sent"`)},
		{name: "a call is not reported", topic: topics.Names.Status, want: audit.KindPermit, do: without(`"status":"sending"`)},
		{name: "an outcome is removed from the journal", topic: journal, want: audit.KindOutcome, do: without(`"outcome":"accepted"`)},
		{name: "an outcome is changed in the journal", topic: journal, want: audit.KindOutcome, do: rewrite(`"outcome":"accepted"`, `"outcome":"permanent"`)},
		{name: "an outcome may not have been received", topic: journal, want: audit.KindOutcome, do: rewrite(`"may_be_received":true`, `"may_be_received":false`)},
		{name: "a permit comes twice", topic: journal, want: audit.KindPermit, do: repeated(`"kind":"permit"`)},
		{name: "a permit is of another message", topic: journal, want: audit.KindPermit, do: record(`"kind":"permit"`, func(r *kgo.Record) {
			i := bytes.Index(r.Value, []byte(`"id":"`)) + 6
			r.Value = append(append(slices.Clone(r.Value[:i]), "00000000-0000-7000-8000-000000000000"...), r.Value[i+36:]...)
		})},
		{name: "a permit and its status are removed", want: audit.KindSequence, pair: unwritten(t, func(kind string) bool { return kind == "permit" })},
		{name: "an outcome and its status are removed", want: audit.KindSequence, pair: unwritten(t, func(kind string) bool { return kind == "outcome" })},
		{name: "a call is removed: its permit, its outcome and both statuses", want: audit.KindSequence, pair: unwritten(t, func(string) bool { return true })},
		{name: "a record of the journal has another number", topic: journal, want: audit.KindSequence, do: rewrite(`"seq":7,`, `"seq":1007,`)},
		{name: "a call names another permit", topic: topics.Names.Status, want: audit.KindPermit, do: names(schemas.StatusSending)},
		{name: "an end names another outcome", topic: topics.Names.Status, want: audit.KindOutcome, do: names(schemas.StatusSent)},
		{name: "a message is dispatched with other charges", topic: dispatch, want: audit.KindDispatch, do: headerOf(schemas.HeaderPlace, func(string) string { return `[]` })},
		{name: "a message is dispatched under another id", topic: dispatch, want: audit.KindDispatch, do: headerOf(schemas.HeaderID, func(string) string { return "00000000-0000-7000-8000-000000000000" })},
		{name: "a decision's time is changed in a dispatch", topic: dispatch, want: audit.KindDispatch, do: headerOf(schemas.HeaderDecidedAt, later)},
		{name: "a request goes to another recipient", topic: topics.Names.Requests, want: audit.KindRecipient, do: rewrite(`"to":"`, `"to":"+491512345678","x":"`)},
		{name: "a request is another message's", topic: topics.Names.Requests, want: audit.KindPhantom, do: rewrite(`"to":"`, `"id":"00000000-0000-4000-8000-000000000000","to":"`)},
		{name: "a request is removed", topic: topics.Names.Requests, want: audit.KindPhantom, do: drop},
		{name: "a message comes back with other charges", topic: topics.Names.Readmit, want: audit.KindReturned, do: headerOf(schemas.HeaderPlace, func(string) string { return `[]` })},
		{name: "the ledger has another end", topic: topics.Names.Ledger, want: audit.KindLedger, do: func(rs []*kgo.Record) []*kgo.Record {
			for _, r := range slices.Backward(rs) {
				if string(r.Key) == "meta" {
					r.Value = bytes.Replace(r.Value, []byte(`"seq":`), []byte(`"seq":1`), 1)
					return rs
				}
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) { c.copied(t, logs) })
	}
}
