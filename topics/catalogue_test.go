package topics

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
)

func policy() *schemas.Policy {
	return &schemas.Policy{
		Limits: []schemas.Limit{{
			Name:      "verify",
			Allow:     []schemas.Window{{Kind: schemas.WindowRolling, N: 1, Length: time.Minute}, {Kind: schemas.WindowCalendar, N: 10, Unit: "day"}},
			Overrides: []schemas.Override{{To: "+8613800000000", Allow: []schemas.Window{{Kind: schemas.WindowRolling, N: 3, Length: 48 * time.Hour}}}},
		}},
		Providers: []schemas.Provider{
			{Name: "aliyun", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}, Lanes: 2,
				Pace: []schemas.Window{{Kind: schemas.WindowRolling, N: 5, Length: time.Second}, {Kind: schemas.WindowRolling, N: 5000, Length: 30 * 24 * time.Hour}}},
			{Name: "tencent", Type: "simulated", Channels: []schemas.Channel{schemas.ChannelSMS}},
		},
	}
}

func TestCatalogue(t *testing.T) {
	specs := map[string]Spec{}
	for _, s := range Catalogue(Config{Partitions: 12, Replication: 3}, policy()) {
		if _, twice := specs[s.Name]; twice {
			t.Errorf("%s stands twice in the catalogue", s.Name)
		}
		specs[s.Name] = s
	}
	if want := 5 + 7 + 4 + 2*5; len(specs) != want {
		t.Errorf("%d topics, want %d", len(specs), want)
	}
	day := 24 * time.Hour
	waiting := 3*day + 7*day
	for _, tt := range []struct {
		topic     string
		parts     int32
		how       Partitioning
		cleanup   string
		retention time.Duration // 0: not set, -1: for ever
	}{
		{"weir.requests", 12, PartitionsFixed, "delete", 2*day + 7*day},
		{"weir.readmit", 12, PartitionsFixed, "delete", 2*day + 7*day},
		{"weir.ledger", 12, PartitionsFixed, "compact", 0},
		{"weir.seen", 12, PartitionsFixed, "delete", 25 * time.Hour},
		{"weir.status", 12, PartitionsFixed, "delete", 2*day + 7*day},
		{"weir.delay.1s", 8, PartitionsFloor, "delete", time.Second + 7*day},
		{"weir.delay.5s", 8, PartitionsFloor, "delete", 5*time.Second + 7*day},
		{"weir.delay.30s", 8, PartitionsFloor, "delete", 30*time.Second + 7*day},
		{"weir.delay.5m", 8, PartitionsFloor, "delete", 5*time.Minute + 7*day},
		{"weir.delay.1h", 8, PartitionsFloor, "delete", time.Hour + 7*day},
		{"weir.delay.6h", 8, PartitionsFloor, "delete", 6*time.Hour + 7*day},
		{"weir.delay.1d", 8, PartitionsFloor, "delete", 8 * day},
		{"weir.dlq", 8, PartitionsFloor, "delete", 30 * day},
		{"weir.config", 1, PartitionsFixed, "delete", -1},
		{"weir.health", 1, PartitionsFloor, "compact", 0},
		{"weir.replies", 8, PartitionsFloor, "delete", time.Hour},
		{"weir.dispatch.aliyun.urgent", 2, PartitionsLanes, "delete", waiting},
		{"weir.dispatch.aliyun.again", 2, PartitionsLanes, "delete", waiting},
		{"weir.dispatch.aliyun.normal", 2, PartitionsLanes, "delete", waiting},
		{"weir.dispatch.aliyun.bulk", 2, PartitionsLanes, "delete", waiting},
		{"weir.dispatch.tencent.bulk", 1, PartitionsLanes, "delete", waiting},
		{"weir.journal.aliyun", 2, PartitionsLanes, "delete", 31 * day}, // its pace looks back 30 days
		{"weir.journal.tencent", 1, PartitionsLanes, "delete", 11 * day},
	} {
		t.Run(tt.topic, func(t *testing.T) {
			s, ok := specs[tt.topic]
			if !ok {
				t.Fatal("not in the catalogue")
			}
			if s.Partitions != tt.parts || s.Partitioning != tt.how || s.Replication != 3 || s.Holds == "" {
				t.Errorf("got %+v", s)
			}
			want := ""
			switch {
			case tt.retention == -1:
				want = "-1"
			case tt.retention > 0:
				want = strconv.FormatInt(tt.retention.Milliseconds(), 10)
			}
			if got := s.Configs["retention.ms"]; got != want {
				t.Errorf("retention.ms = %q, want %q", got, want)
			}
			for k, want := range map[string]string{"cleanup.policy": tt.cleanup, "message.timestamp.type": "LogAppendTime", "min.insync.replicas": "2"} {
				if got := s.Configs[k]; got != want {
					t.Errorf("%s = %q, want %q", k, got, want)
				}
			}
			if n, _ := strconv.Atoi(s.Configs["max.message.bytes"]); n < 2*schemas.MaxRequestBytes {
				t.Errorf("max.message.bytes = %d: a request of %d bytes and its headers must fit", n, schemas.MaxRequestBytes)
			}
		})
	}
}

// A journal that forgets before its messages do would let them be sent again.
func TestJournalOutlivesDispatch(t *testing.T) {
	p := policy()
	p.Classes = []schemas.Class{{Name: "slow", ExpiresAfter: schemas.Duration(20 * 24 * time.Hour)}}
	specs := map[string]Spec{}
	for _, s := range Catalogue(Config{Partitions: 1, Replication: 1}, p) {
		specs[s.Name] = s
	}
	for _, pr := range p.Providers {
		j, _ := strconv.ParseInt(specs[Names{}.Journal(pr.Name)].Configs["retention.ms"], 10, 64)
		for _, q := range Queues {
			d, _ := strconv.ParseInt(specs[Names{}.Dispatch(pr.Name, q)].Configs["retention.ms"], 10, 64)
			if d == 0 || j <= d {
				t.Errorf("%s: journal kept %d ms, dispatch %s %d ms", pr.Name, j, q, d)
			}
		}
	}
}

func TestReach(t *testing.T) {
	for _, tt := range []struct {
		name string
		w    schemas.Window
		want time.Duration
	}{
		{"rolling", schemas.Window{Kind: schemas.WindowRolling, Length: time.Hour}, time.Hour},
		{"calendar day is up to 25 h", schemas.Window{Kind: schemas.WindowCalendar, Unit: "day"}, 25 * time.Hour},
		{"calendar month", schemas.Window{Kind: schemas.WindowCalendar, Unit: "month"}, schemas.MaxWindow},
		{"bucket 10 refill 0.5/s", schemas.Window{Kind: schemas.WindowBucket, N: 10, RefillTokens: 1, RefillEvery: 2000}, 20*time.Second + time.Millisecond},
		{"bucket that takes a year", schemas.Window{Kind: schemas.WindowBucket, N: 365, RefillTokens: 1, RefillEvery: 86_400_000}, schemas.MaxWindow},
		{"bucket without refill", schemas.Window{Kind: schemas.WindowBucket, N: 1}, schemas.MaxWindow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := reach(tt.w); got != tt.want {
				t.Errorf("reach = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct{ prefix, topic string }{
		{"", "weir.delay.6h"}, {"weir.", "weir.delay.6h"}, {"eu.prod.", "eu.prod.delay.6h"},
	} {
		n := Names{Prefix: tt.prefix}
		if got := n.Delay("6h"); got != tt.topic {
			t.Errorf("Delay = %q, want %q", got, tt.topic)
		}
		if tier, ok := n.TierOf(tt.topic); !ok || tier.Wait != 6*time.Hour {
			t.Errorf("TierOf(%q) = %v, %t", tt.topic, tier, ok)
		}
	}
	for _, other := range []string{"weir.requests", "weir.delay.7h", "other.delay.6h", "weir.delay."} {
		if tier, ok := (Names{}).TierOf(other); ok {
			t.Errorf("TierOf(%q) = %v", other, tier)
		}
	}
	for p, want := range map[schemas.Priority]Queue{"urgent": QueueUrgent, "normal": QueueNormal, "bulk": QueueBulk, "": QueueNormal} {
		if got := QueueOf(p); got != want {
			t.Errorf("QueueOf(%q) = %q", p, got)
		}
	}
}

func TestTierFor(t *testing.T) {
	for i := 1; i < len(Tiers); i++ {
		if Tiers[i].Wait <= Tiers[i-1].Wait {
			t.Fatalf("tiers are not sorted at %s", Tiers[i].Name)
		}
	}
	for _, d := range schemas.DefaultRetries {
		if got := TierFor(d).Wait; got != d {
			t.Errorf("TierFor(%s) waits %s: a retry must be one hop", d, got)
		}
	}
	for remaining, want := range map[time.Duration]string{
		-time.Hour: "1s", 0: "1s", 999 * time.Millisecond: "1s", time.Second: "1s", 4999 * time.Millisecond: "1s",
		5 * time.Second: "5s", 29 * time.Second: "5s", 30 * time.Second: "30s", 5*time.Minute - 1: "30s", 5 * time.Minute: "5m",
		59 * time.Minute: "5m", time.Hour: "1h", 6 * time.Hour: "6h", 24 * time.Hour: "1d", 31 * 24 * time.Hour: "1d",
	} {
		if got := TierFor(remaining).Name; got != want {
			t.Errorf("TierFor(%s) = %s, want %s", remaining, got, want)
		}
	}
	// Every wait ends in few hops, never early and less than a second late.
	for _, wait := range []time.Duration{1, 7 * time.Second, 61*time.Minute + 3*time.Second + 7, 24*time.Hour - 1, 31*24*time.Hour - 1} {
		left, hops := wait, 0
		for ; left > 0; hops++ {
			left -= TierFor(left).Wait
		}
		if left <= -time.Second {
			t.Errorf("%s: %s late", wait, -left)
		}
		if hops > 80 {
			t.Errorf("%s: %d hops", wait, hops)
		}
	}
}

func TestConfigValidate(t *testing.T) {
	good := Config{Partitions: 8, Replication: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Config{
		"partitions 0":       {Replication: 1},
		"partitions -1":      {Partitions: -1, Replication: 1},
		"replication":        {Partitions: 1},
		"underscore":         {Partitions: 1, Replication: 1, Prefix: "my_weir."},
		"prefix with space":  {Partitions: 1, Replication: 1, Prefix: "my weir."},
		"min isr":            {Partitions: 1, Replication: 1, MinISR: 2},
		"negative audit":     {Partitions: 1, Replication: 1, AuditSpan: -1},
		"negative replies":   {Partitions: 1, Replication: 1, Replies: -1},
		"prefix is too long": {Partitions: 1, Replication: 1, Prefix: strings.Repeat("a", 101)},
	} {
		if err := c.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for brokers, want := range map[int]int16{0: 1, 1: 1, 2: 2, 3: 3, 9: 3} {
		if got := Replication(brokers); got != want {
			t.Errorf("Replication(%d) = %d, want %d", brokers, got, want)
		}
	}
}
