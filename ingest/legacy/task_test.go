package legacy_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/weirhq/weir/ingest/legacy"
	"github.com/weirhq/weir/schemas"
)

// Every status has a state, and every state has a status.
func TestStatusOf(t *testing.T) {
	want := map[schemas.Status]legacy.TaskStatus{
		"accepted": "队列中", "scheduled": "队列中", "deferred": "队列中", "queued": "队列中",
		"sending": "发送中", "retrying": "等待重试",
		"sent": "成功", "delivered": "成功",
		"undelivered": "失败", "failed": "失败", "unknown": "失败", "limited": "失败", "suppressed": "失败",
		"expired": "失败", "cancelled": "失败", "rejected": "失败", "duplicate": "失败",
	}
	if len(want) != len(schemas.Statuses) {
		t.Errorf("%d statuses in the table, %d in schemas", len(want), len(schemas.Statuses))
	}
	seen := make(map[legacy.TaskStatus]bool)
	for _, s := range schemas.Statuses {
		got := legacy.StatusOf(s)
		seen[got] = true
		if got != want[s] {
			t.Errorf("%s is %s, want %s", s, got, want[s])
		}
		if !slices.Contains(legacy.TaskStatuses, got) {
			t.Errorf("%s is %s, which is no state", s, got)
		}
		if s.End() && got != legacy.TaskDone && got != legacy.TaskFailed {
			t.Errorf("%s is an end and shows as %s: its client would wait for ever", s, got)
		}
	}
	if len(seen) != len(legacy.TaskStatuses) {
		t.Errorf("only %v", seen)
	}
}

func TestTaskOf(t *testing.T) {
	const id = "0192f0c1-2a3b-7c4d-8e5f-60718293a4b5"
	const t0 = schemas.Millis(1795248000000) // 2026-11-21T08:00:00Z
	at := func(ms schemas.Millis, s schemas.Status, e schemas.Event) *schemas.Event {
		e.Kind, e.At, e.Status = schemas.KindStatus, t0+ms, s
		return &e
	}
	queued := at(10, schemas.StatusQueued, schemas.Event{})
	sending := at(2000, schemas.StatusSending, schemas.Event{Attempt: 1})
	retrying := at(2500, schemas.StatusRetrying, schemas.Event{Attempt: 1, Reason: "transient", ErrorCode: "busy", Error: "try later"})
	again := at(7500, schemas.StatusSending, schemas.Event{Attempt: 2})
	sent := at(9120, schemas.StatusSent, schemas.Event{Attempt: 2})
	for _, c := range []struct {
		name     string
		timeline []*schemas.Event
		want     string // after the id
	}{
		{"nothing yet", nil, `"sendStatus":"队列中","sendTime":null,"completeTime":null,"retryCount":0,"failureReason":null}`},
		{"queued", []*schemas.Event{queued}, `"sendStatus":"队列中","sendTime":null,"completeTime":null,"retryCount":0,"failureReason":null}`},
		{"sending", []*schemas.Event{queued, sending}, `"sendStatus":"发送中","sendTime":"2026-11-21T08:00:02Z","completeTime":null,"retryCount":0,"failureReason":null}`},
		{"waits to be sent again", []*schemas.Event{queued, sending, retrying}, `"sendStatus":"等待重试","sendTime":"2026-11-21T08:00:02Z","completeTime":null,"retryCount":1,"failureReason":"try later"}`},
		{"queued again", []*schemas.Event{queued, sending, retrying, at(7400, schemas.StatusQueued, schemas.Event{Attempt: 1})},
			`"sendStatus":"队列中","sendTime":"2026-11-21T08:00:02Z","completeTime":null,"retryCount":1,"failureReason":"try later"}`},
		{"sent at the second attempt", []*schemas.Event{queued, sending, retrying, again, sent},
			`"sendStatus":"成功","sendTime":"2026-11-21T08:00:07.5Z","completeTime":"2026-11-21T08:00:09.12Z","retryCount":1,"failureReason":null}`},
		{"delivered", []*schemas.Event{queued, again, sent, at(20_000, schemas.StatusDelivered, schemas.Event{Attempt: 2})},
			`"sendStatus":"成功","sendTime":"2026-11-21T08:00:07.5Z","completeTime":"2026-11-21T08:00:09.12Z","retryCount":1,"failureReason":null}`},
		{"undelivered", []*schemas.Event{queued, again, sent, at(20_000, schemas.StatusUndelivered, schemas.Event{Attempt: 2, Reason: "receipt", ErrorCode: "30003", Error: "unreachable"})},
			`"sendStatus":"失败","sendTime":"2026-11-21T08:00:07.5Z","completeTime":"2026-11-21T08:00:09.12Z","retryCount":1,"failureReason":"未送达：unreachable"}`},
		{"handed over without a call", []*schemas.Event{queued, at(40, schemas.StatusSent, schemas.Event{})},
			`"sendStatus":"成功","sendTime":"2026-11-21T08:00:00.04Z","completeTime":"2026-11-21T08:00:00.04Z","retryCount":0,"failureReason":null}`},
		{"a limit", []*schemas.Event{at(10, schemas.StatusLimited, schemas.Event{Limit: "legacy-2", Window: "200/1m"})},
			`"sendStatus":"失败","sendTime":null,"completeTime":"2026-11-21T08:00:00.01Z","retryCount":0,"failureReason":"超出每分钟请求限制 (200)"}`},
		{"the provider's words", []*schemas.Event{at(10, schemas.StatusFailed, schemas.Event{Attempt: 1, Reason: "permanent", Error: "no such number"})},
			`"sendStatus":"失败","sendTime":null,"completeTime":"2026-11-21T08:00:00.01Z","retryCount":0,"failureReason":"no such number"}`},
		{"no words", []*schemas.Event{at(10, schemas.StatusFailed, schemas.Event{Attempt: 4, Reason: "attempts_exhausted"})},
			`"sendStatus":"失败","sendTime":null,"completeTime":"2026-11-21T08:00:00.01Z","retryCount":3,"failureReason":"超过最大重试次数"}`},
	} {
		status, attempt := schemas.StatusAccepted, 0
		for _, e := range c.timeline {
			status, attempt = e.Status, max(attempt, e.Attempt)
		}
		got, err := json.Marshal(legacy.TaskOf(id, status, attempt, c.timeline))
		if want := `{"taskId":"` + id + `",` + c.want; err != nil || string(got) != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

func TestFailureReason(t *testing.T) {
	for _, c := range []struct {
		e    schemas.Event
		want string
	}{
		{schemas.Event{Status: schemas.StatusSuppressed}, "收件人已退订"},
		{schemas.Event{Status: schemas.StatusExpired, Reason: "expired"}, "消息已过期"},
		{schemas.Event{Status: schemas.StatusCancelled}, "消息已取消"},
		{schemas.Event{Status: schemas.StatusDuplicate, DuplicateOf: "x"}, "重复的消息：x"},
		{schemas.Event{Status: schemas.StatusRejected, Reason: "no_route", Error: "no route matches"}, "消息无效：没有可用的厂商"},
		{schemas.Event{Status: schemas.StatusRejected, Reason: "brand_new", Error: "in plain words"}, "消息无效：in plain words"},
		{schemas.Event{Status: schemas.StatusRejected}, "消息无效"},
		{schemas.Event{Status: schemas.StatusUnknown, Reason: "held"}, "发送结果未知，可能已送达"},
		{schemas.Event{Status: schemas.StatusFailed, Reason: "brand_new"}, "brand_new"},
		{schemas.Event{Status: schemas.StatusFailed}, "发送失败"},
		{schemas.Event{Status: schemas.StatusRetrying, Reason: "throttled"}, "厂商限流"},
	} {
		if got := legacy.FailureReason(&c.e); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.e.Status, c.e.Reason, got, c.want)
		}
	}
}
