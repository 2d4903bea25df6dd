package admission_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/recipient"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
)

// TestOtherZonesAndPlans: a partition that was decided with other time zones or numbering
// plans says so once when it is taken over; its next decision is under this worker's.
func TestOtherZonesAndPlans(t *testing.T) {
	w := newWorld(t)
	stop := w.admit("0")
	const to = "+8613800000000"
	home := schemas.PartitionOf(to, partitions)
	ask := func() {
		w.request(home, `{"channel":"sms","to":%q,"class":"notice","body":"x"}`, to)
		w.statuses(1)
	}
	meta := func() (m map[string]any) {
		var last []byte
		at := stream.Partition{Topic: w.names.Ledger(), Partition: home}
		if err := stream.Read(t.Context(), stream.ReadConfig{Brokers: w.seeds}, []stream.Range{{Partition: at}}, func(r *kgo.Record) error {
			if string(r.Key) == "meta" {
				last = r.Value
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(last, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	current := func() {
		t.Helper()
		if m := meta(); m["zones"] != schemas.ZonesVersion || m["phones"] != recipient.MetadataVersion {
			t.Errorf("the meta record has zones %v and phones %v", m["zones"], m["phones"])
		}
	}
	ask()
	current()
	stop()

	older := meta()
	older["zones"], older["phones"] = "2019b", "nyaruka/phonenumbers v1.0.0"
	value, err := json.Marshal(older)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cl.ProduceSync(t.Context(), &kgo.Record{Topic: w.names.Ledger(), Partition: home, Key: []byte("meta"), Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	seq := older["seq"]
	for _, want := range []int{1, 0} { // once, and not again
		var said bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&said, nil))
		stop = w.admit("0")
		ask()
		stop()
		current()
		if others := fmt.Sprint(meta()["others"]); others != fmt.Sprintf("[map[phones:nyaruka/phonenumbers v1.0.0 seq:%v zones:2019b]]", seq) {
			t.Errorf("of earlier decisions the meta record says %s", others)
		}
		if got := strings.Count(said.String(), "was decided with other"); got != want || want == 1 && !strings.Contains(said.String(), "former_zones=2019b") {
			t.Errorf("said %d times, want %d:\n%s", got, want, said.String())
		}
	}
}
