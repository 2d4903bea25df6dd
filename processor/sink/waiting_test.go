package sink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/weirhq/weir/processor/stream/streamtest"
	"github.com/weirhq/weir/schemas"
)

// there is a connection that is never asked anything.
type there struct{ driver.Conn }

// TestSaysWhatItWaitsForAtItsStart: a step that does not return is told of after ten
// seconds, and then once a minute, in the log and in the sink's reports; when it returns
// the sink goes on.
func TestSaysWhatItWaitsForAtItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(streamtest.Log)
		var said []schemas.SinkReport
		r := newReporter(func(s schemas.SinkReport) { said = append(said, s) })
		began := time.Now()
		conn, err := connect(t.Context(), Config{Logger: log.Logger()}.withDefaults(), r, func(ctx context.Context, _ Config, begin func(string)) (driver.Conn, error) {
			begin(stepMigrate + onCluster)
			time.Sleep(10*time.Second - 1)
			if log.Count("waits") != 0 {
				t.Error("it is said at once")
			}
			time.Sleep(131 * time.Second) // 10 s, 70 s, 130 s
			begin(stepCheck)
			time.Sleep(50 * time.Second) // 190 s
			return there{}, nil
		})
		r.close()
		if err != nil || conn == nil {
			t.Fatalf("%v, %v after %v", conn, err, time.Since(began))
		}
		if n, keeper, check := log.Count("the sink waits at its start"), log.Count("Keeper and every replica"), log.Count(stepCheck); n != 4 || keeper != 3 || check != 1 {
			t.Errorf("said %d times, %d for Keeper and %d for the check; want 4, 3 and 1", n, keeper, check)
		}
		if len(said) != 4 || !strings.Contains(said[0].Failing, "Keeper and every replica") || !strings.Contains(said[3].Failing, stepCheck) {
			t.Errorf("reported: %+v", said)
		}
	})
}

// TestSaysNothingOfAShortStart: who is answered says nothing of having waited.
func TestSaysNothingOfAShortStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(streamtest.Log)
		r := newReporter(func(s schemas.SinkReport) { t.Errorf("%+v", s) })
		conn, err := connect(t.Context(), Config{Logger: log.Logger()}.withDefaults(), r, func(_ context.Context, _ Config, begin func(string)) (driver.Conn, error) {
			begin(stepOpen)
			time.Sleep(9 * time.Second)
			return there{}, nil
		})
		r.close()
		if err != nil || conn == nil || log.Has("waits") {
			t.Errorf("%v, %v", conn, err)
		}
	})
}

// TestSaysThatItStillWaits: a ClickHouse that refuses at once is reported while it does,
// so that the sink is not taken for one that is gone, and its return is logged.
func TestSaysThatItStillWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(streamtest.Log)
		var said []schemas.SinkReport
		r := newReporter(func(s schemas.SinkReport) { said = append(said, s) })
		began := time.Now()
		conn, err := connect(t.Context(), Config{Logger: log.Logger()}.withDefaults(), r, func(_ context.Context, _ Config, begin func(string)) (driver.Conn, error) {
			if begin(stepOpen); time.Since(began) < 30*time.Minute {
				return nil, errors.New("connection refused")
			}
			return there{}, nil
		})
		r.close()
		if err != nil || conn == nil || len(said) < 15 || len(said) > 31 || !log.Has("ClickHouse is ready") {
			t.Errorf("%v, %v: reported %d times in half an hour", conn, err, len(said))
		}
	})
}
