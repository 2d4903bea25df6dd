package main

import (
	"bytes"
	"testing"

	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/processor/admission"
	"github.com/weirhq/weir/processor/lane"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestPrintBacklog holds what people read first at night.
func TestPrintBacklog(t *testing.T) {
	const at = schemas.Millis(1_795_309_200_000)
	names := topics.Names{}
	perMinute, none := 3400.0, 0.0
	queues := []client.QueueBacklog{
		{Stage: "admission", Queue: "requests"},
		{Stage: "lanes", Provider: "aliyun", Queue: "urgent", Waiting: 7, OldestAt: at - 3000, PerMinute: &none},
		{Stage: "lanes", Provider: "aliyun", Queue: "normal", Waiting: 408_000, AtMost: true, OldestAt: at - 3*3600_000, PerMinute: &perMinute, Drain: 7_200_000},
	}
	runs := []groupStatus{{Name: admission.Group(names), Members: 1}, {Name: lane.Group(names, "aliyun"), Members: 1}}
	for _, c := range []struct {
		name string
		st   pipelineStatus
		want string
	}{
		{"nothing waits", pipelineStatus{Backlog: client.Backlog{Queues: queues[:1]}}, "Nothing waits.\n\n"},
		{"all run", pipelineStatus{Backlog: client.Backlog{At: at, Waiting: 408_007, Queues: queues}, Providers: []providerStatus{{Name: "aliyun"}}, Groups: runs}, `408,007 waiting, 0 delayed.

WAITING FOR	QUEUE	MESSAGES	OLDEST SINCE	LEAVE PER MINUTE	EMPTY IN
provider aliyun	urgent	7	2026-11-22 00:59:57Z (3s)	0	nothing moves
provider aliyun	normal	≤ 408,000	2026-11-21 22:00:00Z (3h0m)	3,400	2h0m

`},
		{"no lanes", pipelineStatus{Backlog: client.Backlog{At: at, Waiting: 7, Queues: queues[:2], Stalled: []string{"aliyun"}}, Providers: []providerStatus{{Name: "aliyun"}}, Groups: []groupStatus{runs[0], {Name: lane.Group(names, "aliyun")}}}, `7 waiting, 0 delayed.
ABSENT: no process runs the lanes of aliyun (role lanes), so what waits for it does not move. Start one.
STALLED: no calls to aliyun, although messages wait.

WAITING FOR	QUEUE	MESSAGES	OLDEST SINCE	LEAVE PER MINUTE	EMPTY IN
provider aliyun	urgent	7	2026-11-22 00:59:57Z (3s)	0	nothing moves

`},
		{"no admission", pipelineStatus{Backlog: client.Backlog{At: at, Waiting: 7, Queues: queues[:2]}, Providers: []providerStatus{{Name: "aliyun"}}, Groups: runs[1:]}, `7 waiting, 0 delayed.
ABSENT: no process runs admission (role admission), so what waits for it does not move. Start one.

WAITING FOR	QUEUE	MESSAGES	OLDEST SINCE	LEAVE PER MINUTE	EMPTY IN
provider aliyun	urgent	7	2026-11-22 00:59:57Z (3s)	0	nothing moves

`},
		{"delays", pipelineStatus{Backlog: client.Backlog{At: at}, Delays: client.Delays{Tiers: []client.DelayTier{{Name: "5m", Waiting: 2, OldestAt: at - 60_000}}}, Groups: runs}, `0 waiting, 2 delayed.

WAITING FOR	QUEUE	MESSAGES	OLDEST SINCE	LEAVE PER MINUTE	EMPTY IN
its time	5m	2	2026-11-22 00:59:00Z (1m0s)		

`},
	} {
		var b bytes.Buffer
		if printBacklog(&b, &c.st, names); b.String() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, b.String(), c.want)
		}
	}
}
