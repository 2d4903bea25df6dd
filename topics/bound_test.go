package topics

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirhq/weir/schemas"
)

// TestCompareBound: a topic that is its producers' is created where it is missing,
// told of where it may surprise, refused where records would be lost or doubled,
// and never altered.
func TestCompareBound(t *testing.T) {
	pol := &schemas.Policy{Inputs: []schemas.Input{{Topic: "acme.sends", Tenant: "acme"}}}
	for _, tt := range []struct {
		name   string
		prefix string
		topic  string
		have   map[string]string // its settings; nil is missing
		note   string
		err    string
	}{
		{name: "as Weir would make it", topic: "acme.sends", have: map[string]string{"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": "604800000"}},
		{name: "kept for ever", topic: "acme.sends", have: map[string]string{"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}},
		{name: "its producers' times", topic: "acme.sends", have: map[string]string{"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "retention.ms": "-1"}, note: "times of its producers"},
		{name: "kept for a day", topic: "acme.sends", have: map[string]string{"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": "86400000"}, note: "retention.ms=86400000"},
		{name: "compacted", topic: "acme.sends", have: map[string]string{"cleanup.policy": "compact"}, err: "acme.sends is compacted (cleanup.policy=compact)"},
		{name: "compacted and deleted", topic: "acme.sends", have: map[string]string{"cleanup.policy": "compact,delete"}, err: "is compacted"},
		{name: "Weir's own", topic: "weir.readmit", err: "is one of Weir's own"},
		{name: "Weir's own under another prefix", prefix: "acme.", topic: "acme.sends", err: "which begin with acme."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pol.Inputs[0].Topic = tt.topic
			cfg := Config{Prefix: tt.prefix, Partitions: 4, Replication: 3}
			have := map[string]Actual{}
			if tt.have != nil {
				have[tt.topic] = Actual{Partitions: 7, Replication: 1, Configs: tt.have}
			}
			d, err := Compare(Inputs(cfg, pol), have)
			if e, ok := errors.AsType[*BoundError](err); tt.err != "" != ok || ok && (!strings.Contains(e.Error(), tt.err) || e.Topic != tt.topic) {
				t.Fatalf("refused as %v, want %q", err, tt.err)
			}
			if !d.Empty() {
				t.Errorf("it would be changed: %s", d)
			}
			if got := strings.Join(d.Notes, ";"); (tt.note == "") != (got == "") || !strings.Contains(got, tt.note) {
				t.Errorf("notes %q, want %q", got, tt.note)
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		cfg := Config{Partitions: 4, Replication: 3}
		pol.Inputs[0].Topic = "acme.sends"
		all := Catalogue(cfg, pol)
		d, err := Compare(all, nil)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(d.Create, func(s Spec) bool { return s.Name == "acme.sends" })
		if i < 0 || d.Create[i].Partitions != 4 || d.Create[i].Configs["message.timestamp.type"] != "LogAppendTime" || d.Create[i].Configs["retention.ms"] != d.Create[0].Configs["retention.ms"] {
			t.Errorf("%+v", d.Create)
		}
		if own := Own(cfg, pol); len(own) != len(all)-1 || own[0].Name != "weir.requests" {
			t.Errorf("%d of Weir's own of %d", len(own), len(all))
		}
	})
}
