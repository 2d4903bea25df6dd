package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/stream/streamtest"
)

// TestFetchErrors: of what stays a line in ten seconds, which says how many were left
// out, and another error is told at once.
func TestFetchErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f FetchErrors
		log := new(streamtest.Log)
		denied := fmt.Errorf("fetch: %w", kerr.TopicAuthorizationFailed)
		for range 1000 { // for 20 s
			f.Warn(log.Logger(), "fetch failed", "in", 3, denied)
			time.Sleep(20 * time.Millisecond)
		}
		if n := log.Count("fetch failed"); n != 2 || !log.Has("topic=in partition=3") || log.Count("left_out=499") != 1 {
			t.Errorf("%d lines, want 2, the second of them with the 499 that were left out", n)
		}
		f.Warn(log.Logger(), "fetch failed", "in", 4, denied)
		f.Warn(log.Logger(), "fetch failed", "in", 4, errors.New("another"))
		f.Warn(log.Logger(), "fetch failed", "out", 3, denied)
		if n := log.Count("fetch failed"); n != 5 || log.Count("left_out=499") != 2 {
			t.Errorf("%d lines, want 5: one with what was left out since, and two that are new", n)
		}
	})
}

// TestFetchErrorsOfOneKind: one trouble is one kind, whatever differs in its words.
func TestFetchErrorsOfOneKind(t *testing.T) {
	reset := func(port int) error {
		return fmt.Errorf("unable to read: %w", &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: os.NewSyscallError("read", syscall.ECONNRESET)})
	}
	if a, b := reset(40001), reset(40002); a.Error() == b.Error() || kindOf("in", a) != kindOf("in", b) {
		t.Errorf("%q and %q are two", kindOf("in", a), kindOf("in", b))
	}
	if kindOf("in", reset(1)) == kindOf("in", kerr.TopicAuthorizationFailed) || kindOf("in", reset(1)) == kindOf("out", reset(1)) {
		t.Error("other errors, or topics, are one")
	}
}

// TestFetchErrorsWithoutEnd: errors of ever other words neither fill the log nor the
// memory, and what is over makes room.
func TestFetchErrorsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f FetchErrors
		log := new(streamtest.Log)
		for i := range 1000 {
			f.Warn(log.Logger(), "fetch failed", "in", 0, fmt.Errorf("%d", i))
		}
		if n := log.Count("fetch failed"); n != maxFetchErrors+1 || len(f.kinds) != n {
			t.Errorf("%d lines, %d kinds, want %d", n, len(f.kinds), maxFetchErrors+1)
		}
		time.Sleep(fetchErrorGap)
		f.Warn(log.Logger(), "fetch failed", "in", 0, errors.New("new"))
		if !log.Has("error=new") || len(f.kinds) != 1 {
			t.Errorf("%d kinds are kept, want the new one", len(f.kinds))
		}
	})
}

// TestJudgeSpares: what a worker polls and cannot mend is not told at the speed of its
// polls, and what must end it still does.
func TestJudgeSpares(t *testing.T) {
	log := new(streamtest.Log)
	w := &worker{cfg: Config{Group: "g", Logger: log.Logger()}}
	failing := func(err error) kgo.Fetches {
		return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: "in", Partitions: []kgo.FetchPartition{{Partition: 1, Err: err}, {Partition: 2, Err: err}}}}}}
	}
	for range 1000 {
		if _, err := w.judge(failing(kerr.TopicAuthorizationFailed)); err != nil {
			t.Fatal(err)
		}
	}
	if n := log.Count("fetch failed"); n == 0 || n > 100 { // one, but for a machine that takes minutes
		t.Errorf("2000 errors are %d lines", n)
	}
	if _, err := w.judge(failing(kerr.OffsetOutOfRange)); !errors.Is(err, ErrOffsetOutOfRange) {
		t.Errorf("%v", err)
	}
	if _, err := w.judge(failing(context.Canceled)); err != nil || log.Has("canceled") {
		t.Errorf("%v", err)
	}
}
