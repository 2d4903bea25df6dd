package audit_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/audit"
)

// follower is an audit that follows a live log.
type follower struct {
	t     *testing.T
	ended chan error
	stop  func() error

	mu      sync.Mutex
	reports []*audit.Report
}

func (l *live) follow() *follower {
	f := &follower{t: l.t, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		f.ended <- audit.Follow(ctx, audit.Config{Brokers: l.seeds, Names: l.names, Partitions: parts}, 100*time.Millisecond, func(r *audit.Report, err error) {
			if err != nil {
				l.t.Errorf("a cut: %v", err)
				return
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.reports = append(f.reports, r)
		})
	}()
	f.stop = func() error { cancel(); return <-f.ended }
	l.t.Cleanup(cancel)
	return f
}

// beyond waits for the report of a cut that was taken from now on.
func (f *follower) beyond() (r *audit.Report, cuts int) {
	f.t.Helper()
	now, deadline := time.Now(), time.Now().Add(2*time.Minute)
	for ; time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		f.mu.Lock()
		if cuts = len(f.reports); cuts > 0 {
			r = f.reports[cuts-1]
		}
		f.mu.Unlock()
		if r != nil && r.Cut.Time().After(now) {
			return r, cuts
		}
	}
	f.t.Fatal("no cut for two minutes")
	return nil, 0
}

// most is the densest sending, whoever of several had as much.
func most(r *audit.Report) (all []string) {
	for _, d := range r.Densest {
		all = append(all, fmt.Sprint(d.Provider, d.Limit, d.Window, d.Most))
	}
	return all
}

// What is judged from cut to cut, while Weir runs, is what is judged in one go; and what
// is broken later is found then.
func TestFollow(t *testing.T) {
	l := newLive(t)
	f := l.follow()
	stop := l.start()
	l.send(1, 600)
	l.settled()
	l.publish(secondPolicy)
	l.send(2, 600)
	l.settled()
	stop()
	whole := l.proven()
	r, cuts := f.beyond()
	for _, r := range f.reports {
		if r.Outcome == audit.Violated {
			t.Fatalf("a cut:\n%s", text(r))
		}
	}
	if cuts < 5 {
		t.Errorf("%d cuts only", cuts)
	}
	if r.Outcome != audit.Proven || !reflect.DeepEqual(r.Checked, whole.Checked) || !reflect.DeepEqual(r.Ends, whole.Ends) || !slices.Equal(most(r), most(whole)) {
		t.Errorf("after %d cuts:\n%s\nin one go:\n%s", cuts, text(r), text(whole))
	}

	if err := l.cl.ProduceSync(t.Context(), &kgo.Record{Topic: l.names.Status(), Partition: 1, Value: []byte(`{"kind":"status"}`)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r, _ = f.beyond(); r.Outcome != audit.Violated || r.Faults[audit.KindTorn] != 1 {
			t.Errorf("a forged record:\n%s", text(r))
		}
	}
	if err := f.stop(); err != nil {
		t.Error(err)
	}
}

// Where a topic is created again, what was counted is of another log: the audit ends, and calls
// nothing a violation.
func TestFollowEndsWithItsTopics(t *testing.T) {
	l := newLive(t)
	f := l.follow()
	f.beyond()
	adm := kadm.NewClient(l.cl)
	topic := l.names.DLQ()
	if _, err := adm.DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopics(t.Context(), parts, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-f.ended:
		if err == nil || !strings.Contains(err.Error(), topic+" was created again") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.reports {
		if r.Outcome == audit.Violated {
			t.Errorf("a cut:\n%s", text(r))
		}
	}
}
