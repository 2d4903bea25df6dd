package stream

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func in(offset int64) place { return place{Partition{"in", 0}, offset} }

func alike(n int, q *quarantine, a attempt) (found []place, err error) {
	for range n {
		f, err := q.aborted(&a)
		if err != nil {
			return found, err
		}
		found = append(found, f...)
	}
	return found, nil
}

// TestOnlyARecordsOwnFaultMakesItPoison: brokers that are away, timeouts and fencing end
// no record, however often.
func TestOnlyARecordsOwnFaultMakesItPoison(t *testing.T) {
	for _, err := range []error{
		kerr.NotEnoughReplicas, kerr.RequestTimedOut, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.UnknownTopicOrPartition,
		kerr.TopicAuthorizationFailed, kerr.CoordinatorNotAvailable, kerr.ConcurrentTransactions, kgo.ErrRecordTimeout, errors.New("dial tcp"),
	} {
		if rejects(fmt.Errorf("produce: %w", err)) != nil {
			t.Errorf("%v is held to be a record's fault", err)
		}
		q := newQuarantine()
		if found, stop := alike(100, q, attempt{took: []place{in(1)}, failed: map[place]error{in(1): err}}); len(found) > 0 || stop != nil || q.limit != 0 {
			t.Errorf("%v: %v, %v", err, found, stop)
		}
	}
}

func TestQuarantine(t *testing.T) {
	big := fmt.Errorf("produce: %w", kerr.MessageTooLarge)
	t.Run("three alike", func(t *testing.T) {
		q := newQuarantine()
		a := attempt{took: []place{in(1), in(2)}, failed: map[place]error{in(2): big}, certain: true}
		if found, _ := alike(2, q, a); len(found) > 0 {
			t.Fatalf("after two: %v", found)
		}
		if found, err := alike(1, q, a); len(found) != 1 || found[0] != in(2) || err != nil {
			t.Fatalf("after three: %v, %v", found, err)
		}
	})
	t.Run("a commit between", func(t *testing.T) {
		q := newQuarantine()
		a := attempt{took: []place{in(1)}, failed: map[place]error{in(1): big}, certain: true}
		for range 10 {
			if found, _ := alike(2, q, a); len(found) > 0 {
				t.Fatal(found)
			}
			q.committed(&attempt{}, nil)
		}
	})
	t.Run("several in a batch", func(t *testing.T) {
		q := newQuarantine()
		if found, _ := alike(3, q, attempt{took: []place{in(1), in(2), in(3)}, failed: map[place]error{in(1): big, in(2): big}}); len(found) > 0 || len(q.suspects) != 2 {
			t.Fatalf("%v, suspects %v", found, q.suspects)
		}
		if found, _ := alike(1, q, attempt{took: []place{in(1), in(2), in(3)}, failed: map[place]error{in(2): big}}); len(found) != 1 || found[0] != in(2) {
			t.Fatal(found)
		}
	})
	t.Run("of no record", func(t *testing.T) {
		q := newQuarantine()
		took := []place{in(1), in(2), in(3), in(4), in(5)}
		if _, err := alike(3, q, attempt{took: took, failed: map[place]error{{}: big}}); err != nil || q.limit != 2 {
			t.Fatalf("limit %d, %v", q.limit, err)
		}
		if _, err := alike(1, q, attempt{took: took[:2], failed: map[place]error{{}: big}}); err != nil || q.limit != 1 {
			t.Fatalf("limit %d, %v", q.limit, err)
		}
		q.committed(&attempt{}, map[Partition]Position{{"in", 0}: {Offset: 2}})
		if q.limit != 1 {
			t.Fatal("the bound is gone before its records are")
		}
		if found, _ := alike(3, q, attempt{took: took[1:2], failed: map[place]error{{}: big}}); len(found) != 1 || found[0] != in(2) {
			t.Fatal(found)
		}
		q.committed(&attempt{}, map[Partition]Position{{"in", 0}: {Offset: 6}})
		if q.limit != 0 || len(q.poison) != 0 {
			t.Errorf("limit %d, poison %v", q.limit, q.poison)
		}
	})
	t.Run("none is the cause", func(t *testing.T) {
		q := newQuarantine()
		if _, err := alike(hopeless, q, attempt{failed: map[place]error{{}: big}}); !errors.Is(err, errFatal) {
			t.Error(err)
		}
	})
	t.Run("ending it fails", func(t *testing.T) {
		q := newQuarantine()
		a := attempt{took: []place{in(1)}, failed: map[place]error{in(1): big}, certain: true}
		if _, err := alike(3*maxTries, q, a); err != nil {
			t.Fatal(err)
		}
		if _, err := alike(3, q, a); !errors.Is(err, errFatal) {
			t.Error(err)
		}
	})
	t.Run("panics", func(t *testing.T) {
		q := newQuarantine()
		for i := range int64(10) {
			if err := q.panicked(in(2*i), errPanicTest); err != nil {
				t.Fatal(err)
			}
			q.committed(&attempt{decided: 1}, nil)
		}
		q.panicked(in(20), errPanicTest)
		q.committed(&attempt{}, map[Partition]Position{{"in", 0}: {Offset: 21}}) // it was ended, and none decided
		q.panicked(in(21), errPanicTest)
		if err := q.panicked(in(22), errPanicTest); !errors.Is(err, errFatal) {
			t.Error(err)
		}
	})
	t.Run("nothing comes after poison in its transaction", func(t *testing.T) {
		q := newQuarantine()
		if err := q.panicked(in(2), errPanicTest); err != nil {
			t.Fatal(err)
		}
		var polled []*kgo.Record
		for offset := range int64(5) {
			polled = append(polled, &kgo.Record{Topic: "in", Offset: offset})
		}
		if n, full := q.portion(polled, 0); n != 3 || !full {
			t.Errorf("%d of %d, full %v", n, len(polled), full)
		}
		if n, full := q.portion(polled[3:], 0); n != 2 || full {
			t.Errorf("%d of 2 that are not poison, full %v", n, full)
		}
	})
}

var errPanicTest = errors.New("panic: test")
