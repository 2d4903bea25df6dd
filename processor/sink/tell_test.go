package sink_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// tell writes events, and one record that is none, to one partition.
func tell(t *testing.T, seeds []string, events []schemas.Event) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(topics.Names{}.Status()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	recs := []*kgo.Record{{Value: []byte("poison")}}
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, &kgo.Record{Value: raw})
	}
	if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// answer is a query's rows as tuples in text, between bars.
func answer(t *testing.T, conn driver.Conn, query string) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT toString(tuple(*)) FROM ("+query+")")
	if err != nil {
		t.Errorf("%s\n%v", query, err)
		return ""
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Errorf("%s\n%v", query, err)
	}
	return strings.Join(out, "|")
}
