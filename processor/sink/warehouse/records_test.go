package warehouse_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// MessageRecords says of a message what the legacy API says of its task.
func TestMessageRecords(t *testing.T) {
	conn := open(t)
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	step := func(status schemas.Status, attempt int, more ...string) *schemas.Event {
		e := &schemas.Event{Kind: schemas.KindStatus, Status: status, Attempt: attempt}
		for i, v := range more {
			*[]*string{&e.Error, &e.Reason, &e.Limit, &e.Window}[i] = v
		}
		return e
	}
	lives := map[string][]*schemas.Event{
		"sent at once":       {step("queued", 0), step("sending", 1), step("sent", 1)},
		"delivered":          {step("queued", 0), step("sending", 1), step("sent", 1), step("delivered", 1)},
		"retried, then sent": {step("queued", 0), step("sending", 1), step("retrying", 1, "busy"), step("queued", 1), step("sending", 2), step("sent", 2)},
		"waits for a retry":  {step("queued", 0), step("sending", 1), step("retrying", 1, "busy"), step("queued", 1), step("sending", 2), step("retrying", 2, "still busy")},
		"queued again":       {step("queued", 0), step("sending", 1), step("retrying", 1, "busy"), step("queued", 1)},
		"given up":           {step("queued", 0), step("sending", 1), step("retrying", 1, "busy"), step("queued", 1), step("sending", 2), step("failed", 2, "isp.BUSY")},
		"failed, no text":    {step("queued", 0), step("sending", 1), step("failed", 1, "", "permanent")},
		"refused":            {step("limited", 0, "", "", "legacy-2", "200/60s")},
		"sent by another":    {step("sent", 0)},
		"not delivered":      {step("queued", 0), step("sending", 1), step("sent", 1), step("undelivered", 1, "absent")},
		"unknown, delivered": {step("queued", 0), step("sending", 1), step("unknown", 1, "timeout"), step("delivered", 1)},
	}
	for _, s := range schemas.Statuses {
		lives["only "+string(s)] = []*schemas.Event{step(s, 0)}
	}
	want := make(map[string]string)
	var rows []string
	offset := 0
	stamp := func(at schemas.Millis) string { return at.Time().UTC().Format("2006-01-02 15:04:05.000") }
	for id, life := range lives {
		for i, e := range life {
			e.At = schemas.MillisOf(start.Add(time.Duration(i) * time.Second))
			offset++
			rows = append(rows, fmt.Sprintf("('status', '%s', 'acme', 'sms', 'verify', 'verify-code', '+8613900000000', '%s', '%s', '%s', %d, '%s', '%s', '%s', '%s', '%s', %d)",
				id, e.Status, stamp(e.At), e.Reason, e.Attempt, map[bool]string{true: "aliyun"}[e.Attempt > 0], e.Error, e.Limit, e.Window, "2026-11-21 09:59:59.000", offset))
		}
		// What the API says, but for words that are its own where no one said anything.
		status, attempt := life[0].Status, 0
		for _, e := range life {
			if attempt = max(attempt, e.Attempt); e.Status.Rank() >= status.Rank() {
				status = e.Status
			}
		}
		task := legacy.TaskOf(id, status, attempt, life)
		at := func(s *string) string {
			if s == nil {
				return "NULL"
			}
			v, err := time.Parse(time.RFC3339, *s)
			if err != nil {
				t.Fatal(err)
			}
			return "'" + stamp(schemas.MillisOf(v)) + "'"
		}
		why := "NULL"
		if task.FailureReason != nil {
			for _, e := range life {
				if is := legacy.StatusOf(e.Status); is == legacy.TaskFailed || is == legacy.TaskRetrying {
					why = "'" + cmp.Or(e.Error, strings.TrimSpace(e.Limit+" "+e.Window), e.Reason, string(e.Status)) + "'"
				}
			}
		}
		want[id] = fmt.Sprintf("('%s','%s',%d,%s,'2026-11-21 09:59:59.000',%s,%s)", id, task.SendStatus, task.RetryCount, why, at(task.SendTime), at(task.CompleteTime))
	}
	if err := insertOnce(t.Context(), conn, "records", "status_log_2",
		"kind, message_id, tenant, channel, class, template, `to`, status, at, reason, attempt, provider, error, `limit`, `window`, accepted_at, status_offset", strings.Join(rows, ", ")); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(tellOne(t, conn, "SELECT TaskId, SendStatus, RetryCount, FailureReason, CreatedAt, SendTime, CompleteTime FROM MessageRecords"), "|")
	if len(got) != len(want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	for _, row := range got {
		id, _, _ := strings.Cut(strings.TrimPrefix(row, "('"), "'")
		if row != want[id] {
			t.Errorf("%s\nwant %s", row, want[id])
		}
	}
	if got, want := tellOne(t, conn, "SELECT MessageType, TemplateCode, Recipient, Manufacturer, Tenant, Class FROM MessageRecords WHERE TaskId = 'sent at once'"),
		"('SMS','verify-code','+8613900000000','aliyun','acme','verify')"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// The manual's query, with a smaller count.
	if got := tellOne(t, conn, "SELECT TaskId FROM (SELECT * FROM MessageRecords\nWHERE RetryCount >= 2\nORDER BY CreatedAt DESC\nLIMIT 10)"); got != "('waits for a retry')" {
		t.Errorf("retried twice: %s", got)
	}
	if err := insertOnce(t.Context(), conn, "write", "MessageRecords", "TaskId", "('x')"); err == nil {
		t.Error("MessageRecords takes rows")
	}
	if plan := tellOne(t, conn, "EXPLAIN indexes = 1 SELECT * FROM MessageRecords WHERE TaskId = 'delivered'"); !strings.Contains(plan, "(message_id in [\\'delivered\\', \\'delivered\\'])") {
		t.Errorf("a message is sought so: %s", strings.ReplaceAll(plan, "|", "\n"))
	}
	if err := warehouse.Check(t.Context(), conn); err != nil {
		t.Error(err)
	}
}
