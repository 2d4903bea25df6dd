package sink_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirhq/weir/processor/sink"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas"
)

// A price is in the tables with every digit that it has in the log. One that the
// tables cannot hold is a poison row, and never another amount.
func TestPriceLosesNoDigit(t *testing.T) {
	seeds := startKafka(t)
	url := "http://" + startEngine(t, t.TempDir(), "").Addr()
	const fit = 5
	prices := []string{
		"0.045", "0.000001", "999999999999.999999", "0", "12",
		// what does not fit
		"0.0000005", "1.234567891", "1234567890123", "-1", "1e-3", "0,045", "free", " 1", "01", "1.", ".5",
	}
	events := make([]schemas.Event, 0, len(prices)+1)
	for i, p := range prices {
		events = append(events, schemas.Event{Kind: schemas.KindStatus, MessageID: fmt.Sprint("m-", i), Status: schemas.StatusSent,
			At: began, Provider: "p", Price: p, Currency: "CNY"})
	}
	events = append(events, schemas.Event{Kind: schemas.KindStatus, MessageID: "m-none", Status: schemas.StatusSent, At: began, Provider: "p"})
	tell(t, seeds, events)
	reg := prometheus.NewRegistry()
	run(t, sink.Config{Brokers: seeds, URL: url, Logger: logger(t), Metrics: reg})
	until(t, 20*time.Second, "all rows arrive", func() bool { return confirmed(t, reg) == len(events)+1 })
	conn := open(t, url)
	h := warehouse.History{Conn: conn}
	for i, p := range prices[:fit] {
		if got, err := h.Message(t.Context(), fmt.Sprint("m-", i)); err != nil || len(got) != 1 || got[0].Price != p || got[0].Currency != "CNY" {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
	if got, err := h.Message(t.Context(), "m-none"); err != nil || len(got) != 1 || got[0].Price != "" {
		t.Errorf("none: %v, %v", got, err)
	}
	bad := len(prices) - fit
	for _, c := range []struct{ query, want string }{
		{"SELECT count() FROM status_events WHERE kind = 'status'", fmt.Sprintf("(%d)", fit+1)},
		// tell adds one that is no event at all.
		{"SELECT error, count() FROM status_events WHERE kind = 'poison' AND error LIKE '%price%' GROUP BY ALL", fmt.Sprintf("('a price that the table cannot hold: at most 12 digits before the point and six after it',%d)", bad)},
		{"SELECT count() FROM status_events WHERE kind = 'poison' AND message_id = '' AND price = 0 AND currency = '' AND provider = ''", fmt.Sprintf("(%d)", bad+1)},
		{"SELECT sum(events) FROM status_by_minute", fmt.Sprintf("(%d)", fit+1)},
		{"SELECT sum(price) FROM messages", "(1000000000012.045)"},
	} {
		if got := answer(t, conn, c.query); got != c.want {
			t.Errorf("%s: %s, want %s", c.query, got, c.want)
		}
	}
	if got := shown(t, reg, "weir_sink_poison_rows_total"); got != float64(bad+1) {
		t.Errorf("weir_sink_poison_rows_total %v, want %d", got, bad+1)
	}
}
