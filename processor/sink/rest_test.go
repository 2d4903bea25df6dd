package sink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// asked is a ClickHouse that tells what it was asked first, and then fails.
type asked struct {
	driver.Conn
	driver.Row
	queries chan string
}

func (a *asked) QueryRow(_ context.Context, query string, _ ...any) driver.Row {
	a.queries <- query
	return a
}

func (*asked) Scan(...any) error { return errors.New("said to be so") }

// TestADearComparisonRests: one that took long is not followed by another for twenty
// times as long; whether the tables are as they must be is looked at all the same.
func TestADearComparisonRests(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		took, after time.Duration
		compares    bool
	}{
		{2 * time.Second, time.Minute, true},
		{10 * time.Second, time.Minute, false},
		{10 * time.Second, 199 * time.Second, false},
		{10 * time.Second, 200 * time.Second, true},
	} {
		conn := &asked{queries: make(chan string, 10)}
		s := &sink{
			cfg: Config{Check: time.Minute}.withDefaults(), conn: conn, ledger: newLedger(), minutes: newMinutes(), metrics: newMetrics(nil), checked: make(chan checked, 1),
		}
		s.ledger.start(0, &entries{})
		s.ledger.loaded(0, 6, []int64{5}, []int64{now.UnixMilli()}, []int64{now.Unix() / 60 * 60}, now)
		s.checked <- checked{compared: true, took: tt.took}
		s.check(t.Context(), now)
		s.checked <- checked{} // a look at the tables alone
		s.check(t.Context(), now.Add(time.Second))
		if ranges, _ := s.toCompare(now.Add(tt.after)); (len(ranges) > 0) != tt.compares {
			t.Errorf("%v after one that took %v: compares %v", tt.after, tt.took, ranges)
		}
		s.check(t.Context(), now.Add(tt.after))
		if q := <-conn.queries; !strings.Contains(q, "version()") {
			t.Errorf("%v after one that took %v the tables are not looked at first: %s", tt.after, tt.took, q)
		}
		s.inserts.Wait()
	}
}
