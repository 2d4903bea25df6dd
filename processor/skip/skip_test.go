package skip_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/skip"
	"github.com/weirhq/weir/processor/stream"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// TestSkip: who skipped what, when and why is kept with the record's bytes. It covers
// that record, and no other that has its place.
func TestSkip(t *testing.T) {
	names := topics.Names{Prefix: "x."}
	journal := names.Journal("p")
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names.Skips(), journal, names.Ledger(), names.Status()), kfake.SeedTopics(3, names.DLQ()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	read := stream.ReadConfig{Brokers: c.ListenAddrs()}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(topics.MaxDLQMessageBytes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	large := bytes.Repeat([]byte("x"), 1<<20+500)
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: journal, Value: []byte("torn")}, &kgo.Record{Topic: journal, Value: large}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for at, want := range map[schemas.Source]string{
		{Topic: journal, Offset: 2}:               "holds the offsets 0 to 1",
		{Topic: journal, Offset: -1}:              "holds the offsets 0 to 1",
		{Topic: journal, Partition: 4}:            "does not exist",
		{Topic: names.Ledger()}:                   "weir ledger repair",
		{Topic: names.Status()}:                   "no stage of Weir stops",
		{Topic: names.Readmit()}:                  "no stage of Weir stops",
		{Topic: "theirs"}:                         "no stage of Weir stops",
		{Topic: names.Dispatch("p", "x")}:         "no stage of Weir stops",
		{Topic: names.Journal("never") + ".more"}: "",
	} {
		if _, err := skip.Find(ctx, read, names, at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", at, err, want)
		}
	}
	if list, err := skip.Load(ctx, read, names); err != nil || len(list) != 0 {
		t.Errorf("%v, %v: want nothing", list, err)
	}
	for offset, value := range [][]byte{[]byte("torn"), large} {
		at := schemas.Source{Topic: journal, Offset: int64(offset)}
		rec, err := skip.Find(ctx, read, names, at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := skip.Write(ctx, cl, names, 3, rec, "ann", " ", 7); err == nil {
			t.Error("skipped without a reason")
		}
		s, err := skip.Write(ctx, cl, names, 3, rec, "ann", "ticket 4711", 7)
		if err != nil {
			t.Fatal(err)
		}
		// What anyone else writes there skips nothing.
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: names.Skips(), Key: []byte("k"), Value: []byte("garbage")},
			&kgo.Record{Topic: names.Skips(), Key: []byte(journal + "/0/9"), Value: []byte(`{"record":"other/0/9"}`)}, &kgo.Record{Topic: names.Skips()}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		list, err := skip.Load(ctx, read, names)
		if err != nil || len(list) != offset+1 {
			t.Fatalf("%+v, %v: want %d", list, err, offset+1)
		}
		is := list[offset]
		if is != *s || is.Record != at || is.By != "ann" || is.Reason != "ticket 4711" || is.At != 7 || is.Bytes != len(value) || is.Effect == "" || is.Letter == "" {
			t.Errorf("%+v, written %+v", is, s)
		}
		other := *rec
		other.Value = []byte("another record")
		if !list.Covers(rec) || list.Covers(&other) {
			t.Error("a skip covers its record, and no other in its place")
		}
		if text, err := json.Marshal(&is); err != nil || !strings.Contains(string(text), `"record":"`+at.String()+`"`) {
			t.Errorf("%s, %v", text, err)
		}
		var p, o int64
		for i, part := range strings.Split(is.Letter, "/") {
			n := json.Number(part)
			v, _ := n.Int64()
			if i == 0 {
				p = v
			} else {
				o = v
			}
		}
		found := false
		if err := stream.Read(ctx, read, []stream.Range{{Partition: stream.Partition{Topic: names.DLQ(), Partition: int32(p)}}}, func(r *kgo.Record) error {
			if r.Offset == o {
				found = bytes.Equal(r.Value, value[:min(len(value), 1<<20)])
			}
			return nil
		}); err != nil || !found {
			t.Errorf("its bytes are not at %s of the DLQ: %v", is.Letter, err)
		}
	}
}
