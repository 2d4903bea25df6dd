package legacy

import (
	"github.com/weirhq/weir/schemas"
)

// TaskStatus is a state of a message in that API.
type TaskStatus string

const (
	TaskQueued   TaskStatus = "队列中"  // in the queue
	TaskSending  TaskStatus = "发送中"  // being sent
	TaskDone     TaskStatus = "成功"   // success
	TaskFailed   TaskStatus = "失败"   // failure
	TaskRetrying TaskStatus = "等待重试" // waits for its next attempt
)

// TaskStatuses lists every state.
var TaskStatuses = []TaskStatus{TaskQueued, TaskSending, TaskDone, TaskFailed, TaskRetrying}

// StatusOf is that API's state for a status of Weir's.
func StatusOf(s schemas.Status) TaskStatus {
	switch s {
	case schemas.StatusAccepted, schemas.StatusScheduled, schemas.StatusDeferred, schemas.StatusQueued:
		return TaskQueued
	case schemas.StatusSending:
		return TaskSending
	case schemas.StatusRetrying:
		return TaskRetrying
	case schemas.StatusSent, schemas.StatusDelivered:
		return TaskDone
	case schemas.StatusUndelivered, schemas.StatusFailed, schemas.StatusUnknown, schemas.StatusLimited,
		schemas.StatusSuppressed, schemas.StatusExpired, schemas.StatusCancelled, schemas.StatusRejected, schemas.StatusDuplicate:
		return TaskFailed
	}
	return TaskFailed
}

// Submitted is the answer to a message that was taken in.
type Submitted struct {
	TaskID  string     `json:"taskId"`
	Status  TaskStatus `json:"status"`
	Message string     `json:"message"`
}

// SubmittedAs is the answer to a message with its id and its first status: that of
// the one before where its idempotency key was known.
func SubmittedAs(id string, s schemas.Status) Submitted {
	out := Submitted{TaskID: id, Status: StatusOf(s), Message: MsgQueued}
	if out.Status != TaskQueued {
		out.Message = MsgKnown
	}
	return out
}

// Task is what is known of a message. Times are UTC as .NET writes them; nil is
// null: not yet, or nothing to say.
type Task struct {
	TaskID        string     `json:"taskId"`
	SendStatus    TaskStatus `json:"sendStatus"`
	SendTime      *string    `json:"sendTime"`     // of the latest attempt
	CompleteTime  *string    `json:"completeTime"` // when it ended, well or not
	RetryCount    int        `json:"retryCount"`   // attempts that failed and were, or are to be, repeated
	FailureReason *string    `json:"failureReason"`
}

// TaskOf is a message's state for its id, its status, the number of its attempts
// so far, and the events that led there, in the order of the log.
func TaskOf(id string, status schemas.Status, attempt int, timeline []*schemas.Event) Task {
	t := Task{TaskID: id, SendStatus: StatusOf(status), RetryCount: max(attempt-1, 0)}
	if t.SendStatus == TaskRetrying || t.SendStatus == TaskQueued { // the next is still to come
		t.RetryCount = attempt
	}
	var trouble *schemas.Event // the latest
	for _, e := range timeline {
		switch {
		case e.Status == schemas.StatusSending:
			t.SendTime = timeOf(e.At)
		case e.Status.End() && t.CompleteTime == nil:
			t.CompleteTime = timeOf(e.At)
			if t.SendTime == nil && StatusOf(e.Status) == TaskDone { // handed over without a call of Weir's
				t.SendTime = t.CompleteTime
			}
		}
		if s := StatusOf(e.Status); s == TaskFailed || s == TaskRetrying {
			trouble = e
		}
	}
	if trouble != nil && t.SendStatus != TaskDone {
		why := FailureReason(trouble)
		t.FailureReason = &why
	}
	return t
}

// timeOf writes a time as .NET's JSON writes a DateTime in UTC: a fraction only
// where there is one.
func timeOf(at schemas.Millis) *string {
	s := at.Time().UTC().Format("2006-01-02T15:04:05.999Z07:00")
	return &s
}

// FailureReason says why a message was not sent, or not yet: what the provider
// said where it said something.
func FailureReason(e *schemas.Event) string {
	why := e.Error
	if why == "" {
		why = reasons[e.Reason]
	}
	if why == "" {
		why = e.Reason
	}
	with := func(what string) string {
		if why == "" || why == what {
			return what
		}
		return what + "：" + why
	}
	switch e.Status {
	case schemas.StatusLimited:
		return Refusal(e.Window)
	case schemas.StatusSuppressed:
		return msgSuppressed
	case schemas.StatusExpired:
		return msgExpired
	case schemas.StatusCancelled:
		return msgCancelled
	case schemas.StatusDuplicate:
		return "重复的消息：" + e.DuplicateOf
	case schemas.StatusRejected:
		if text, ok := reasons[e.Reason]; ok {
			return msgRejected + "：" + text
		}
		return with(msgRejected)
	case schemas.StatusUnknown:
		if e.Error != "" {
			return "发送结果未知，可能已送达：" + e.Error
		}
		return "发送结果未知，可能已送达"
	case schemas.StatusUndelivered:
		return with("未送达")
	case schemas.StatusFailed, schemas.StatusRetrying,
		schemas.StatusAccepted, schemas.StatusScheduled, schemas.StatusDeferred, schemas.StatusQueued, schemas.StatusSending,
		schemas.StatusSent, schemas.StatusDelivered:
	}
	if why == "" {
		return "发送失败"
	}
	return why
}
