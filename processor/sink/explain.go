package sink

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// trouble is why ClickHouse does not take rows, in words that hold nothing of
// them, and what to do.
type trouble struct {
	why, do string
	tables  bool // they are not as they must be
}

const (
	again = "nothing, unless it stays: it is tried again"
	look  = "what the sink's look at the tables says, in its next lines: it names the table and how to mend it"
	page  = "; docs/clickhouse.md says more"
)

// explain tells what an error of ClickHouse means to who runs it.
func explain(err error) trouble {
	if e, ok := errors.AsType[*clickhouse.Exception](err); ok {
		t, ok := troubles[int(e.Code)]
		if !ok {
			return trouble{why: fmt.Sprintf("ClickHouse refuses with code %d (%s)", e.Code, e.Name), do: "what the error says" + page}
		}
		return trouble{fmt.Sprintf("%s (ClickHouse's code %d)", t.why, e.Code), t.do, t.tables}
	}
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout() {
		return trouble{why: "ClickHouse does not answer in time, and it is not known whether it has the rows: they are sent again under the same token, which it takes once", do: again}
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return trouble{why: "ClickHouse cannot be reached", do: "see that it runs, and that clickhouse.url is right"}
	}
	return trouble{why: "ClickHouse did not answer as it should", do: again}
}

// troubles are by ClickHouse's codes (its src/Common/ErrorCodes.cpp).
var troubles = func() map[int]trouble {
	all := make(map[int]trouble)
	for _, t := range []struct {
		codes   []int
		why, do string
	}{
		{[]int{243}, "ClickHouse's disk is full", "free some or add some; nothing has to be restarted" + page},
		{[]int{164}, "ClickHouse's user may only read", "take readonly from its profile, or give Weir another user" + page},
		{[]int{242}, "a table is read-only: its replica has lost Keeper, or its start failed", "see that Keeper answers, then SELECT * FROM system.replicas WHERE is_readonly; SYSTEM RESTORE REPLICA where the metadata is lost"},
		{[]int{225, 244, 999, 319, 285, 286, 289, 254}, "the replicas cannot agree, so it is not known whether the rows are there: they are sent again under the same token, which is taken once", "see that Keeper and the replicas are up: system.replicas, system.zookeeper"},
		{[]int{497}, "ClickHouse's user lacks a right", "grant what the error names" + page},
		{[]int{192, 193, 194, 516}, "ClickHouse does not know the user or the password", "correct clickhouse.url"},
		{[]int{8, 10, 16, 36, 47, 53, 60, 81, 349, 386}, "a table or a column is missing, or is of another type", look},
		{[]int{115, 452}, "ClickHouse does not let Weir set a setting without which rows could be doubled", "take the constraint from the user's profile" + page},
		{[]int{241, 173}, "ClickHouse has no memory for the rows", "give it more, or look for what takes it: system.processes"},
		{[]int{252}, "ClickHouse has more parts than it can merge", "nothing at once: it takes rows again when it has merged; if it stays, its disks are too slow"},
		{[]int{202, 439}, "ClickHouse runs as many queries as it may", again},
		{[]int{159, 209, 210, 160}, "ClickHouse did not finish in time; it is sent again under the same token, which it takes once", again},
		{[]int{236, 394}, "the insert was cancelled in ClickHouse", again},
	} {
		for _, c := range t.codes {
			all[c] = trouble{t.why, t.do, t.do == look}
		}
	}
	return all
}()
