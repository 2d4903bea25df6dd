package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// devProcess is a running weir dev.
type devProcess struct {
	*Process
	dir                     string
	ready                   time.Duration
	HTTP, Kafka, ClickHouse string
}

// startDev starts weir dev on a directory and waits until it says where it
// listens.
func startDev(t *testing.T, dir string, args ...string) *devProcess {
	t.Helper()
	endpoints := filepath.Join(dir, "endpoints")
	bin := weirBinary(t)
	began := time.Now()
	p, err := Start(t.TempDir(), "dev", bin, append([]string{"dev", "--dir", dir, "--shutdown-grace", unhurried}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	d := &devProcess{Process: p, dir: dir}
	t.Cleanup(func() {
		select {
		case <-p.Done():
		default:
			if err := p.Stop(patience); err != nil {
				t.Errorf("weir dev: %v", err)
			}
		}
		if t.Failed() {
			t.Logf("weir dev:\n%s", p.Tail(20))
		}
	})
	if !poll(t, 60*time.Second, func() bool {
		select {
		case <-p.Done():
			t.Fatalf("weir dev ended: %v\n%s", p.Err(), p.Output())
		default:
		}
		b, err := os.ReadFile(endpoints)
		if err != nil {
			return false
		}
		var e struct {
			PID                     int
			HTTP, Kafka, ClickHouse string
		}
		if json.Unmarshal(b, &e) != nil || e.PID != p.PID() {
			return false // a killed one has left it
		}
		d.HTTP, d.Kafka, d.ClickHouse = e.HTTP, e.Kafka, e.ClickHouse
		return true
	}) {
		t.Fatalf("weir dev is not ready:\n%s", p.Output())
	}
	d.ready = time.Since(began)
	return d
}

// anyPorts lets weir dev listen anywhere.
var anyPorts = []string{"--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--clickhouse", "127.0.0.1:0"}

// weir runs a command against this weir dev.
func (d *devProcess) weir(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	words := 1
	switch args[0] {
	case "alerts", "callbacks": // and its verb
		words = 2
	case "send":
		args = append(args, "--timeout", unhurried)
	}
	cmd := exec.CommandContext(ctx, weirBinary(t), append(args[:words:words], append([]string{"--dir", d.dir}, args[words:]...)...)...)
	out, err := cmd.CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && args[0] == "send" && (e.ExitCode() == 3 || e.ExitCode() == 4) {
		err = nil // limited, for one: its line says so
	}
	if err != nil {
		t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// sql asks ClickHouse over its HTTP port.
func (d *devProcess) sql(t *testing.T, query string) string {
	t.Helper()
	return sql(t, d.ClickHouse, query)
}

// sql asks until there is an answer: a table may not be made yet, and ClickHouse may
// refuse for a moment, for want of memory or because it has just begun.
func sql(t *testing.T, url, query string) string {
	t.Helper()
	var answer []byte
	var err error
	if !poll(t, patience, func() bool {
		var resp *http.Response
		if resp, err = http.Post(url, "text/plain", strings.NewReader(query)); err != nil {
			return false
		}
		defer resp.Body.Close()
		if answer, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, answer)
		}
		return err == nil
	}) {
		t.Fatalf("%s: %v", query, err)
	}
	return strings.TrimSpace(string(answer))
}

// children are the processes that a process has started (Linux).
func children(t *testing.T, pid int) []int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(tasks) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("/proc/PID/task/*/children is not there: run CI on a Linux that has it")
		}
		t.Skip("NOT TESTED: without /proc/PID/task/*/children the children of a killed weir dev cannot be told")
	}
	var out []int
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			n, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, n)
		}
	}
	return out
}

func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(b, []byte(") Z "))
}

// TestDev is the README's first screen.
func TestDev(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".weir")
	d := startDev(t, dir, anyPorts...)
	t.Logf("DEV ready after %.1f s: %s", d.ready.Seconds(), strings.ReplaceAll(d.Output(), "\n", " | "))
	if d.ClickHouse == "" {
		if os.Getenv("CI") != "" {
			t.Fatalf("no engine:\n%s", d.Output())
		}
		t.Logf("NOT TESTED: SQL, since there is no engine here:\n%s", d.Output())
	}
	messages := 0
	send := func(to string) string {
		t.Helper()
		messages++
		out := d.weir(t, "send", "--to", to, "--channel", "sms", "--class", "verify", "--body", "code 1", "--wait")
		t.Logf("DEV $ weir send …    %s", out)
		return out
	}
	first := time.Now()
	if out := send("+8613800000000"); !strings.HasPrefix(out, "sent ") {
		t.Errorf("the first: %s", out)
	}
	limited := regexp.MustCompile(`^limited: verify 1/60s, try again at \d\d:\d\d:\d\d \(\d+ s\)`)
	if out := send("+8613800000000"); !limited.MatchString(out) {
		t.Errorf("the second: %s", out)
	}

	// Over HTTP.
	resp, body := post(t, "http://"+d.HTTP+"/v1/messages", `{"channel":"sms","to":"+8613900000000","class":"verify","body":"code 1"}`)
	t.Logf("DEV $ curl -i …      %s Location: %s %s", resp.Status, resp.Header.Get("Location"), body)
	var accepted struct{ ID string }
	if err := json.Unmarshal(body, &accepted); err != nil || resp.StatusCode != 202 || resp.Header.Get("Location") != "/v1/messages/"+accepted.ID {
		t.Errorf("POST: %d %s %v", resp.StatusCode, body, err)
	}
	timeline := func(id string) (status schemas.Status, steps string) {
		resp, err := http.Get("http://" + d.HTTP + "/v1/messages/" + id)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var m struct {
			Status   schemas.Status
			Timeline []struct{ Status schemas.Status }
		}
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil || resp.StatusCode != 200 {
			t.Errorf("GET: %d %v", resp.StatusCode, err)
		}
		for _, e := range m.Timeline {
			steps += string(e.Status) + " "
		}
		return m.Status, strings.TrimSpace(steps)
	}
	var status schemas.Status
	var steps string
	poll(t, 10*time.Second, func() bool { status, steps = timeline(accepted.ID); return status == schemas.StatusSent })
	t.Logf("DEV $ curl …         %s: %s", status, steps)
	if status != schemas.StatusSent || !strings.HasSuffix(steps, "queued sending sent") {
		t.Errorf("GET: %s: %s", status, steps)
	}

	// Another client, another partitioner, another spelling.
	names := topics.Names{}
	p, err := NewProducer([]string{d.Kafka}, names, CRC32)
	if err != nil {
		t.Fatal(err)
	}
	p.Send(t.Context(), &schemas.Request{Channel: schemas.ChannelSMS, To: "+86 138 0000 0000", Class: "verify", Body: "code 2"}, "+86 138 0000 0000")
	if _, err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := devEnd(t, d, names, 4)
	if (end.Status != schemas.StatusLimited && time.Since(first) < time.Minute) || end.To != "+8613800000000" {
		t.Errorf("another spelling: %s to %s", end.Status, end.To)
	}
	messages += 2 // over HTTP, and to Kafka
	t.Logf("DEV $ kcat …         %s %s %s", end.Status, end.Limit, end.Window)

	if d.ClickHouse != "" {
		want := "verify\tlimited\t2\nverify\tqueued\t2\nverify\tsending\t2\nverify\tsent\t2"
		if end.Status == schemas.StatusSent { // the minute was over
			want = "verify\tlimited\t1\nverify\tqueued\t3\nverify\tsending\t3\nverify\tsent\t3"
		}
		const query = "SELECT class, status, count() FROM weir.status_events GROUP BY ALL ORDER BY class, toString(status)"
		var got string
		poll(t, 10*time.Second, func() bool { got = d.sql(t, query); return got == want })
		if got != want {
			t.Errorf("SQL:\n%s\nwant\n%s", got, want)
		}
		t.Logf("DEV $ curl … SQL     %s", strings.ReplaceAll(strings.ReplaceAll(got, "\n", "; "), "\t", " "))
	}

	// kill -9: broker and engine end in good order, and nothing is forgotten. On a
	// machine that takes longer than the limit's minute for it, that is not seen: again.
	for try := 0; ; try++ {
		to := fmt.Sprintf("+861380000001%d", try)
		first := time.Now()
		if out := send(to); !strings.HasPrefix(out, "sent ") {
			t.Errorf("before kill -9: %s", out)
		}
		kids := children(t, d.PID())
		if len(kids) == 0 {
			t.Error("weir dev has no children")
		}
		d.Kill()
		if !poll(t, 20*time.Second, func() bool {
			for _, pid := range kids {
				if alive(pid) {
					return false
				}
			}
			return true
		}) {
			t.Errorf("children %v outlive a killed weir dev", kids)
		}
		d = startDev(t, dir, anyPorts...)
		t.Logf("DEV ready again after %.1f s", d.ready.Seconds())
		out := send(to)
		if limited.MatchString(out) {
			break
		}
		if time.Since(first) < time.Minute {
			t.Errorf("after kill -9: %s", out)
			break
		}
		if try == 2 {
			t.Fatal("three times weir dev took longer than a minute to be killed and to come back: nothing was tested")
		}
	}
	judgeDev(t, d, names, messages)
}

// devEnd waits until so many messages have ended and returns the last end.
func devEnd(t *testing.T, d *devProcess, names topics.Names, n int) *schemas.Event {
	t.Helper()
	var last *schemas.Event
	ends := 0
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	trail, err := Follow([]string{d.Kafka}, names, NewOracle(nil, names.Requests(), names.Readmit(), partitions), func(r Record) {
		if r.Event.Status.End() {
			ends++
			if last == nil || r.Event.At >= last.At {
				last = r.Event
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); trail.Run(run) }()
	err = trail.Until(ctx, func(*Oracle) bool { return ends >= n })
	stop()
	<-done
	if err != nil {
		t.Fatalf("%d of %d messages ended: %v", ends, n, err)
	}
	return last
}

// judgeDev holds the log of a running weir dev to what it promises, and
// ClickHouse to the log.
func judgeDev(t *testing.T, d *devProcess, names topics.Names, messages int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	brokers := []string{d.Kafka}
	policies, err := Revisions(ctx, brokers, names)
	if err != nil {
		t.Fatal(err)
	}
	var report *Report
	statuses := 0
	// What is under way (a decision of what was forwarded) may end meanwhile.
	poll(t, 10*time.Second, func() bool {
		requests, err1 := Committed(ctx, brokers, names.Requests())
		readmit, err2 := Committed(ctx, brokers, names.Readmit())
		o := NewOracle(policies, names.Requests(), names.Readmit(), partitions)
		if err := readStatus(ctx, brokers, names, o, &statuses); err != nil || err1 != nil || err2 != nil {
			t.Fatal(err, err1, err2)
		}
		report = o.Finish(requests, readmit, nil)
		return report.OK()
	})
	t.Logf("DEV %s", report)
	if !report.OK() || report.Messages != messages {
		t.Errorf("%d messages, want %d", report.Messages, messages)
	}
	if d.ClickHouse == "" {
		return
	}
	want := fmt.Sprintf("%d\t%d", statuses, statuses)
	var got string
	poll(t, 10*time.Second, func() bool {
		got = d.sql(t, "SELECT count(), uniqExact(status_partition, status_offset) FROM weir.status_events")
		return got == want
	})
	if got != want {
		t.Errorf("ClickHouse has %q rows, Kafka %q", got, want)
	}
}

// settled waits until every request of a running weir dev has an end, every record of
// readmit a decision, and ClickHouse the whole log.
func (d *devProcess) settled(t *testing.T) {
	t.Helper()
	brokers, names := []string{d.Kafka}, topics.Names{}
	const rows = "SELECT (SELECT count() FROM weir.status_events) + (SELECT count() FROM weir.decisions WHERE kind = 'decision')"
	if !poll(t, 20*time.Second, func() bool {
		requests, err1 := Committed(t.Context(), brokers, names.Requests())
		readmit, err2 := Committed(t.Context(), brokers, names.Readmit())
		o, log := NewOracle(nil, names.Requests(), names.Readmit(), partitions), 0
		err3 := readLog(t.Context(), brokers, names, func(r Record) { log++; o.Take(r) })
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(requests, func(at Offset) bool { _, _, ok := o.Ended(at); return !ok }) &&
			!slices.ContainsFunc(readmit, func(at Offset) bool { return !o.Decided(at) }) &&
			d.sql(t, rows) == fmt.Sprint(log)
	}) {
		t.Fatalf("not all has ended, or ClickHouse has not all of it: %s rows", d.sql(t, rows))
	}
}

// readStatus is ReadLog that counts the statuses of messages.
func readStatus(ctx context.Context, brokers []string, names topics.Names, o *Oracle, n *int) error {
	*n = 0
	counting := func(r Record) {
		if r.Event.Kind == schemas.KindStatus {
			*n++
		}
		o.Take(r)
	}
	return readLog(ctx, brokers, names, counting)
}

// Two of them on the default ports, the only fixed ones in these tests: the
// second takes other ones, and so does the first where something has them. A
// busy port that was asked for is an error.
func TestDevDodgesBusyPorts(t *testing.T) {
	t.Parallel()
	first := startDev(t, filepath.Join(t.TempDir(), ".weir"))
	second := startDev(t, filepath.Join(t.TempDir(), ".weir"))
	t.Logf("DEV first on %s %s %s, second on %s %s %s", first.HTTP, first.Kafka, first.ClickHouse, second.HTTP, second.Kafka, second.ClickHouse)
	if first.HTTP == second.HTTP || first.Kafka == second.Kafka || first.ClickHouse != "" && first.ClickHouse == second.ClickHouse {
		t.Error("both listen on the same port")
	}
	for _, d := range []*devProcess{first, second} {
		if out := d.weir(t, "send", "--to", "+8613800000000", "--class", "verify", "--body", "code 1", "--wait"); !strings.HasPrefix(out, "sent ") {
			t.Errorf("on %s: %s", d.HTTP, out)
		}
	}
	for _, flag := range []string{"--http=" + first.HTTP, "--kafka=" + first.Kafka} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, weirBinary(t), "dev", "--dir", filepath.Join(t.TempDir(), ".weir"), flag).CombinedOutput()
		cancel()
		if err == nil || !strings.Contains(string(out), "address already in use") {
			t.Errorf("weir dev %s: %v: %s", flag, err, out)
		}
	}
}

// TestShow: make run shows a message that is sent, the next that is refused, and
// ClickHouse that knows of both.
func TestShow(t *testing.T) {
	d := startDev(t, filepath.Join(t.TempDir(), ".weir"), append([]string{"--show"}, anyPorts...)...)
	shown := regexp.MustCompile(`(?s)\$ weir send .*\nsent .*\$ weir send .*\nlimited: verify 1/60s.*\$ curl .*\nverify\tsent\t1\n.*verify\tlimited\t1\n`)
	if d.ClickHouse == "" {
		shown = regexp.MustCompile(`(?s)\$ weir send .*\nsent .*\$ weir send .*\nlimited: verify 1/60s`)
	}
	if !poll(t, 30*time.Second, func() bool { return shown.MatchString(d.Output()) }) {
		t.Errorf("it shows:\n%s", d.Output())
	}
}
