package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// example is a command of a page, and the answer that the page says it gives.
type example struct{ command, answer string }

var fence = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```")

// readPage returns the policy of a page in docs, if it has one, and its commands.
func readPage(t *testing.T, name string) (policy string, examples []example) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("../../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range fence.FindAllStringSubmatch(string(page), -1) {
		switch kind, text := block[1], block[2]; kind {
		case "yaml":
			policy += text
		case "sh":
			examples = append(examples, example{command: text})
		default:
			if len(examples) == 0 || examples[len(examples)-1].answer != "" {
				t.Fatalf("an answer to no command: %s", text)
			}
			examples[len(examples)-1].answer = text
		}
	}
	return policy, examples
}

// Parts of an answer that are others each time.
var volatile = []struct {
	is   *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z`), "TIME"},
	{regexp.MustCompile(`weir_(live|test)_[0-9A-Za-z]{43}`), "SECRET"},
	{regexp.MustCompile(`\\"[0-9a-f]{32}\\"`), "ETAG"},
	{regexp.MustCompile(`"retryAfterSeconds":[1-9]\d?\b`), `"retryAfterSeconds":SECONDS`},
	{regexp.MustCompile(`(?m)^(Retry-After): [1-9]\d?$`), "$1: SECONDS"},
	{regexp.MustCompile(`(?m)^(Date): .*$`), "$1: DATE"},
	{regexp.MustCompile(`(?im)^(X-RateLimit-Reset): [1-9]\d{9}$`), "$1: UNIX"},
	{regexp.MustCompile(`;t=\d+`), ";t=SECONDS"},
}

// constant is an answer without these, by lines; headers of HTTP are apart.
func constant(answer string) (headers, lines []string) {
	answer = strings.ReplaceAll(answer, "\r", "")
	for _, v := range volatile {
		answer = v.is.ReplaceAllString(answer, v.name)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(answer), "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	if end := slices.Index(lines, ""); strings.HasPrefix(lines[0], "HTTP/") && end > 0 {
		return lines[:end], lines[end+1:]
	}
	return nil, lines
}

// differ says where an answer is not the page's. It may have more headers.
func differ(got, page string) (why []string) {
	headers, lines := constant(got)
	wantHeaders, want := constant(page)
	for _, h := range wantHeaders {
		if !slices.Contains(headers, h) {
			why = append(why, "lacks "+h)
		}
	}
	if !slices.Equal(lines, want) {
		why = append(why, strings.Join(lines, "\n"), "is not", strings.Join(want, "\n"))
	}
	return why
}

func TestLegacyPage(t *testing.T) { runPage(t, "legacy.md", 9) }

func TestPolicyAPIPage(t *testing.T) { runPage(t, "policy-api.md", 10) }

// inForce is an URL that answers once every partition of admission decides under the
// latest revision.
func (d *devProcess) inForce(t *testing.T) string {
	t.Helper()
	brokers, names := []string{d.Kafka}, topics.Names{}
	var mu sync.Mutex
	seen := make(map[int32]int64) // partition → revision
	trail, err := Follow(brokers, names, NewOracle(nil, names.Requests(), names.Readmit(), partitions), func(r Record) {
		if made := r.Event.Decision; made != nil {
			mu.Lock()
			defer mu.Unlock()
			seen[made.Partition] = max(seen[made.Partition], made.Revision)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { trail.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		revisions, err := Revisions(r.Context(), brokers, names)
		if err != nil {
			t.Error(err)
			return
		}
		p, err := NewProducer(brokers, names, Murmur2)
		if err != nil {
			t.Error(err)
			return
		}
		if !poll(t, patience, func() bool {
			for i := range 64 { // decisions that no limit counts, in every partition
				p.Send(r.Context(), &schemas.Request{Action: schemas.ActionUnsuppress, To: fmt.Sprintf("+86139000001%02d", i)}, "")
			}
			<-time.After(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			for n := range int32(partitions) {
				if seen[n] < int64(len(revisions)-1) {
					return false
				}
			}
			return true
		}) {
			t.Errorf("revision %d is not in force everywhere", len(revisions)-1)
		}
		if _, err := p.Close(r.Context()); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// runPage runs the commands of a page as they are printed, in their order, in
// one shell, against weir dev with the page's policy, and compares what they
// print with the page. atLeast is how many there are.
func runPage(t *testing.T, name string, atLeast int) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is not here", tool)
			}
			t.Skipf("NOT TESTED: docs/%s, since %s is not here", name, tool)
		}
	}
	policy, examples := readPage(t, name)
	dir := t.TempDir()
	args := anyPorts
	if policy != "" {
		file := filepath.Join(dir, "page.yaml")
		if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append([]string{"--policy", file}, args...)
	}
	d := startDev(t, filepath.Join(dir, ".weir"), args...)

	inForce := d.inForce(t)
	const separator = "\n=== end of an answer ===\n"
	var script strings.Builder
	script.WriteString("set -e -o pipefail\n")
	for _, e := range examples {
		// The page's second, in which a change comes into force, is a machine's that does little else.
		command := strings.ReplaceAll(strings.ReplaceAll(e.command, "127.0.0.1:8080", d.HTTP), "\nsleep 1\n", "\ncurl -sSf "+inForce+"\n")
		if strings.HasPrefix(e.answer, "HTTP/1.1 429 ") {
			// A decision that takes longer than the API waits for is answered as if it were
			// for the message. What is refused counts nowhere: so ask until it is in time.
			fmt.Fprintf(&script, "for try in $(seq 50); do { %s; } > try.out; if grep -q '^HTTP/1.1 429' try.out; then break; fi; done\n", strings.TrimSpace(command))
		}
		fmt.Fprintf(&script, "%s\necho\necho '%s'\n", command, strings.TrimSpace(separator))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	sh := exec.CommandContext(ctx, "bash", "-c", script.String())
	sh.Dir = dir
	sh.Env = append(os.Environ(), "PATH="+filepath.Dir(weirBinary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	var stderr bytes.Buffer
	sh.Stderr = &stderr
	out, err := sh.Output()
	if err != nil {
		t.Errorf("the shell: %v: %s", err, &stderr)
	}
	got := strings.Split(string(out), separator)
	if len(got) != len(examples)+1 || len(examples) < atLeast {
		t.Fatalf("%d answers to %d commands:\n%s", len(got)-1, len(examples), out)
	}
	for i, e := range examples {
		t.Logf("PAGE $ %s%s", e.command, got[i])
		if why := differ(got[i], e.answer); why != nil {
			t.Errorf("%s\n%s\n%s", e.command, got[i], strings.Join(why, "\n"))
		}
	}
}
