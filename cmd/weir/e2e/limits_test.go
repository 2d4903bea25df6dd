package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/processor/backtest"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

const triedPolicy = `limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [3/60s, 5/1h]}
  - {name: tenant, per: [tenant], allow: [60/1h]}
classes:
  - {name: verify, retries: [100ms, 100ms]}
`

// TestLimitsTry decides the traffic of a weir dev again: under the policy in
// force, under others, and once more when Kafka has let go of a half of it, which
// ClickHouse has.
func TestLimitsTry(t *testing.T) {
	t.Parallel()
	d := startDev(t, filepath.Join(t.TempDir(), ".weir"), anyPorts...)
	files := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	try := func(args ...string) (out, errs string, code int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), weirBinary(t), append([]string{"limits", "try", "--dir", d.dir}, args...)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	}
	same := file("same.yaml", triedPolicy)
	if out, errs, code := try("-f", same); code != 0 || !strings.Contains(out, "No message was put to a limit") {
		t.Errorf("without traffic: %d %s%s", code, out, errs)
	}
	if _, errs, code := try("-f", file("bad.yaml", "limits:\n  - {name: a, per: [recipient], allow: [-1/60s]}\n")); code != 1 || !strings.Contains(errs, "bad.yaml:2:") {
		t.Errorf("a bad policy: %d %s", code, errs)
	}
	d.weir(t, "apply", "--accept-loss", "-f", same)

	// Fourteen recipients, some of whom the simulated provider fails for a while, or
	// for good.
	to := []string{"+15005550001", "+15005550004", "+15005550009", "+15005550011", "+15005550012"}
	for n := range 9 {
		to = append(to, fmt.Sprintf("+861380000000%d", n))
	}
	p, err := NewProducer([]string{d.Kafka}, topics.Names{}, CRC32)
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 8
	for range rounds {
		for _, key := range to {
			p.Send(t.Context(), &schemas.Request{Channel: schemas.ChannelSMS, To: key, Class: "verify", Body: "code"}, key)
		}
	}
	if _, err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	total := rounds * len(to)
	const ended = "SELECT count() FROM weir.messages WHERE status IN ('sent', 'failed', 'limited', 'delivered', 'unknown')"
	withEngine(t, d)
	var got string
	if !poll(t, 20*time.Second, func() bool { got = d.sql(t, ended); return got == fmt.Sprint(total) }) {
		t.Fatalf("%s of %d messages ended", got, total)
	}
	d.settled(t) // what failed gives its place back after its end

	result := func(args ...string) *backtest.Result {
		t.Helper()
		out, errs, code := try(append(args, "--json")...)
		r := new(backtest.Result)
		if err := json.Unmarshal([]byte(out), r); err != nil || code != 0 {
			t.Fatalf("try %v: %d %v %s%s", args, code, err, out, errs)
		}
		r.Until = 0
		return r
	}
	r := result("-f", same)
	if r.Messages != int64(total) || r.Then.Refused == 0 || r.Then != r.Now || r.NewlyAdmitted+r.NewlyRefused > 0 || r.Source != "kafka" {
		t.Errorf("the policy in force again: %+v", r)
	}
	stricter := file("stricter.yaml", "limits:\n  - {name: verify, match: {class: verify}, per: [recipient], allow: [1/60s]}\n  - {name: country, per: [country], allow: [7/1h]}\n")
	strict := result("-f", stricter)
	// Of the nine in China seven pass, one each; of the American ones those that
	// were attempted in vain give their places back, but at least one each stands.
	if strict.NewlyRefused == 0 || strict.Now.Refused <= r.Now.Refused || strict.Then != r.Then {
		t.Errorf("a stricter one: %+v", strict)
	}
	only := result("-f", stricter, "--limit", "country")
	if only.Now.Refused >= strict.Now.Refused {
		t.Errorf("with one of its limits only: %d refused, with both %d", only.Now.Refused, strict.Now.Refused)
	}
	if out, _, _ := try("-f", stricter); !strings.Contains(out, fmt.Sprintf("Would have refused %d of %d messages", strict.Now.Refused, total)) || strings.Contains(out, "+8613800000001") {
		t.Errorf("the text:\n%s", out)
	}

	// Kafka lets go of what it has, by halves and whole: ClickHouse has it.
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.Kafka))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm, status := kadm.NewClient(cl), topics.Names{}.Status()
	for _, source := range []string{"both", "clickhouse"} {
		ends, err := adm.ListEndOffsets(t.Context(), status)
		if err != nil {
			t.Fatal(err)
		}
		starts, err := adm.ListStartOffsets(t.Context(), status)
		if err != nil {
			t.Fatal(err)
		}
		cut := kadm.Offsets{}
		ends.Each(func(o kadm.ListedOffset) {
			at := o.Offset
			if source == "both" {
				start, _ := starts.Lookup(o.Topic, o.Partition)
				at = (start.Offset + o.Offset) / 2
			}
			cut.AddOffset(o.Topic, o.Partition, at, -1)
		})
		deleted, err := adm.DeleteRecords(t.Context(), cut)
		if err == nil {
			err = deleted.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			file string
			want *backtest.Result
		}{{"the policy in force", same, r}, {"a stricter one", stricter, strict}} {
			again := result("-f", c.file)
			if again.Source != source {
				t.Errorf("%s: it came from %s, not %s", c.name, again.Source, source)
			}
			again.Source = c.want.Source
			if !reflect.DeepEqual(again, c.want) {
				t.Errorf("%s, from %s:\n%+v\nwant\n%+v", c.name, source, again, c.want)
			}
		}
	}
}
