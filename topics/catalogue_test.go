package topics

import (
	"os"
	"regexp"
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
	if want := 5 + 7 + 9 + 3 + 2*5; len(specs) != want {
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
		{"weir.dlq.redriven", 1, PartitionsFixed, "delete", 30 * day},
		{"weir.receipts", 8, PartitionsFloor, "delete", 14 * day},
		{"weir.config", 1, PartitionsFixed, "delete", -1},
		{"weir.health", 1, PartitionsFloor, "compact", 0},
		{"weir.replies", 8, PartitionsFloor, "delete", time.Hour},
		{"weir.reports", 1, PartitionsFloor, "compact", 0},
		{"weir.skips", 1, PartitionsFixed, "compact", 0},
		{"weir.alerts", 1, PartitionsFixed, "compact", 0},
		{"weir.callbacks", 12, PartitionsFixed, "delete", 7 * day},
		{"weir.callbacks.state", 12, PartitionsFixed, "compact", 0},
		{"weir.callbacks.endpoints", 1, PartitionsFixed, "compact", 0},
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
		-time.Hour: "1s", 0: "1s", 999 * time.Millisecond: "1s", time.Second: "1s", 4 * time.Second: "1s", 4001 * time.Millisecond: "5s",
		5 * time.Second: "5s", 29 * time.Second: "5s", 29001 * time.Millisecond: "30s", 30 * time.Second: "30s", 5*time.Minute - 1: "5m", 5 * time.Minute: "5m",
		59 * time.Minute: "5m", time.Hour: "1h", 6 * time.Hour: "6h", 24 * time.Hour: "1d", 31 * 24 * time.Hour: "1d",
	} {
		if got := TierFor(remaining).Name; got != want {
			t.Errorf("TierFor(%s) = %s, want %s", remaining, got, want)
		}
	}
}

// hops plays a wait of which each hop takes longer than its tier, and returns
// how many it takes and how late it ends.
func hops(wait, longer time.Duration) (n int, late time.Duration) {
	for left := wait; ; {
		took := TierFor(left).Wait + longer
		left -= took
		n++
		if left <= 0 {
			return n, -left
		}
	}
}

// TestHopsOfAWait: never early, less than a second late but for what the hops
// took longer, and as many as docs/delay.md says.
func TestHopsOfAWait(t *testing.T) {
	const longer = 30 * time.Millisecond
	for wait := 100 * time.Millisecond; wait <= 26*time.Hour; wait += 1700 * time.Millisecond {
		// Of all that hops take longer, only what no later hop makes up for counts: the last's.
		if n, late := hops(wait, longer); late >= Tiers[0].Wait+longer {
			t.Fatalf("a wait of %s ends %s late, after %d hops", wait, late, n)
		}
	}
	page, err := os.ReadFile("../docs/delay.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, m := range regexp.MustCompile(`(?m)^\| (up to )?(\d+)(s|m|h|d) \| (\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		rows++
		count, _ := strconv.Atoi(m[2])
		wait := time.Duration(count) * map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[m[3]]
		got, _ := hops(wait, longer)
		if m[1] != "" {
			for w := time.Second; w <= wait; w += time.Second / 2 {
				n, _ := hops(w, longer)
				got = max(got, n)
			}
		}
		if strconv.Itoa(got) != m[4] {
			t.Errorf("docs/delay.md says %q: it is %d", m[0], got)
		}
	}
	if rows < 10 {
		t.Errorf("docs/delay.md has %d rows of waits", rows)
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
