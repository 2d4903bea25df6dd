package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/processor/revise"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// bench is an embedded broker with the flags that lead to it.
type bench struct {
	t     *testing.T
	addr  string
	flags []string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Options{Dir: t.TempDir(), Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		_ = b.Stop(ctx)
	})
	return &bench{t: t, addr: b.Addr(), flags: []string{"--kafka-brokers", b.Addr(), "--kafka-partitions", "2", "--dir", t.TempDir()}}
}

// file writes a policy file.
func (b *bench) file(text string) string {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// does runs a command that must succeed and print each of want.
func (b *bench) does(args []string, want ...string) string {
	b.t.Helper()
	code, stdout, stderr := weir(b.t, append(args, b.flags...)...)
	if code != exitOK {
		b.t.Fatalf("weir %v: code %d, %s%s", args, code, stdout, stderr)
	}
	for _, w := range want {
		if !strings.Contains(stdout, w) {
			b.t.Errorf("weir %v: no %q in\n%s", args, w, stdout)
		}
	}
	return stdout
}

// fails runs a command that must end with 1 and say want.
func (b *bench) fails(args []string, want string) { b.t.Helper(); b.ends(exitError, args, want) }

// misused runs a command that must end with 2 and say want.
func (b *bench) misused(args []string, want string) { b.t.Helper(); b.ends(exitUsage, args, want) }

func (b *bench) ends(with int, args []string, want string) {
	b.t.Helper()
	code, stdout, stderr := weir(b.t, append(args, b.flags...)...)
	if code != with || !strings.Contains(stderr, want) || stdout != "" {
		b.t.Errorf("weir %v: code %d, %q %q; want %d with %q", args, code, stdout, stderr, with, want)
	}
}

const twoProviders = `limits:
  - {name: verify, match: {class: verify}, per: [recipient], allow: [1/60s]}
providers:
  - {name: one, type: simulated, channels: [sms]}
  - {name: two, type: http, channels: [sms], settings: {url: "http://127.0.0.1:9", headers: {X-Key: "${TOKEN}"}}}
routes:
  - {name: china, match: {channel: sms, prefix: "86"}, to: [{provider: one}]}
`

// TestApplyNamesUnroutableChannels: one route for sms leaves e-mail where it was; with
// routes_only no e-mail is sent any more, and the edit says so before and after.
func TestApplyNamesUnroutableChannels(t *testing.T) {
	b := newBench(t)
	const base = "providers:\n  - {name: one, type: simulated, channels: [sms]}\n  - {name: mail, type: simulated, channels: [email]}\n"
	const route = "routes:\n  - {name: texts, match: {channel: sms}, to: [{provider: one}]}\n"
	b.does([]string{"apply", "-f", b.file(base)}, "Revision 1")
	if out := b.does([]string{"apply", "-f", b.file(base + route)}, "+ route texts", "Revision 2"); strings.Contains(out, "unroutable") {
		t.Errorf("a route for sms: %s", out)
	}
	only := b.file(base + "routes_only: true\n" + route)
	b.does([]string{"apply", "-f", only, "--dry-run"}, "~ setting routes_only  routes_only: false → true\n", "(3 unchanged)", "WARNING: email would be unroutable", "revision 2 is in force")
	b.does([]string{"apply", "-f", only, "--dry-run", "--json"}, `"unroutable": [`)
	b.does([]string{"apply", "-f", only}, "WARNING: email is now unroutable", "Revision 3")
	// A part that does not say keeps it; a whole file that does not takes it back.
	b.does([]string{"apply", "-f", b.file(base)}, "Nothing to change. Revision 3")
	b.does([]string{"apply", "-f", b.file(base + "routes_only: false\n" + route)}, "~ setting routes_only  routes_only: true → false\n", "Revision 4")
	b.does([]string{"apply", "-f", only}, "Revision 5")
	b.does([]string{"apply", "-f", b.file(base + route), "--prune"}, "~ setting routes_only", "Revision 6")
}

func TestApplyMergesAndPrunes(t *testing.T) {
	b := newBench(t)
	whole := b.file(twoProviders)
	b.does([]string{"apply", "-f", whole, "--dry-run"}, "+ limit verify", "history would begin", "weir.dispatch.one", "Nothing was changed (--dry-run); revision 0")
	if out := b.does([]string{"get", "revisions", "--json"}); !strings.Contains(out, `"revisions": []`) {
		t.Errorf("a dry run wrote: %s", out)
	}
	b.does([]string{"apply", "-f", whole}, "+ limit verify\n", "+ provider one\n+ provider two\n", "(0 unchanged)", "limit verify 60s: history begins now, complete at 20", "Revision 1 is in force.")
	b.does([]string{"apply", "-f", whole}, "(4 unchanged)", "Nothing to change. Revision 1 is in force.")

	// A part of a policy: it may refer to what is in force, and keeps the rest.
	part := b.file("limits:\n  - {name: verify, match: {class: verify}, per: [recipient], allow: [2/60s, 5/24h]}\nroutes:\n  - {name: first, to: [{provider: two}]}\n")
	out := b.does([]string{"apply", "-f", part}, "~ limit verify  allow: 1/60s → [2/60s, 5/24h]\n", "+ route first\n", "(3 unchanged)",
		"Kept, though the file lacks them (--prune removes them, keys only as --prune=keys): provider one, provider two, route china", "limit verify 24h: history begins at ", "Revision 2")
	if strings.Contains(out, "limit verify 60s: history") {
		t.Errorf("a window that keeps its history is said to begin:\n%s", out)
	}
	routes := b.does([]string{"get", "routes"})
	if first, china := strings.Index(routes, "name: first"), strings.Index(routes, "name: china"); first < 0 || china < first {
		t.Errorf("the file's route does not come first:\n%s", routes)
	}
	b.fails([]string{"apply", "-f", b.file("providers: [{name: one, type: simulated, channels: [email]}]")}, "route china: ")
	b.fails([]string{"apply", "-f", part, "--prune"}, "policy.yaml:4:")
	b.fails([]string{"apply", "-f", b.file("providers:\n  - {name: us, type: twilio, channels: [sms], settings: {auth_token: \"${TWILIO}\", from: Weir}}\n")}, "policy.yaml:2:57: providers[0].settings.account_sid: is missing: write")

	// The whole policy again.
	out = b.does([]string{"apply", "-f", whole, "--prune", "--json"})
	var r revise.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Revision != 3 || len(r.Changes) != 2 || r.Changes[0].Op != schemas.ChangeEdit || r.Changes[1].String() != "- route first" || r.Unchanged != 3 || len(r.Warming) != 0 {
		t.Errorf("report %s", out)
	}
	b.does([]string{"get", "revisions"}, "REVISION", "\n3 ", "\n1 ")
	// An old revision comes back whole.
	second := b.file(b.does([]string{"get", "revision", "2"}))
	b.does([]string{"apply", "-f", second, "--prune"}, "+ route first", "Revision 4")
	b.fails([]string{"get", "revision", "9"}, "the newest is 4")
}

func TestGetAndDelete(t *testing.T) {
	b := newBench(t)
	code, stdout, stderr := weir(t, append([]string{"get", "limits"}, b.flags...)...)
	if code != exitOK || stdout != "" || !strings.Contains(stderr, "There are no limits.") {
		t.Errorf("before anything: code %d, %q %q", code, stdout, stderr)
	}
	whole := b.file(twoProviders)
	b.does([]string{"apply", "-f", whole})
	var all string
	for _, kind := range []string{"limits", "providers", "routes"} {
		all += b.does([]string{"get", kind})
	}
	doc, err := schemas.ParsePolicy("get", []byte(all))
	if err != nil {
		t.Fatalf("%s\n%v", all, err)
	}
	want, err := schemas.ParsePolicy("policy", []byte(twoProviders))
	if err != nil {
		t.Fatal(err)
	}
	if changes := schemas.DiffPolicy(&want.Policy, &doc.Policy); len(changes) > 0 {
		t.Errorf("what get prints differs: %v", changes)
	}
	b.does([]string{"get", "provider", "two"}, "name: two", "${TOKEN}")
	if out := b.does([]string{"get", "classes", "--json"}); strings.Join(strings.Fields(out), "") != `{"classes":[]}` {
		t.Errorf("no classes as JSON: %s", out)
	}
	b.fails([]string{"get", "provider", "three"}, `there is no provider "three"; there are one, two`)

	b.fails([]string{"delete", "provider", "one"}, `route china: to[0].provider: there is no provider "one"`)
	b.fails([]string{"delete", "class", "x"}, `there is no class "x"; there are no classes`)
	b.does([]string{"delete", "routes", "china", "--dry-run"}, "- route china", "revision 1 is in force")
	b.does([]string{"delete", "routes", "china"}, "- route china\n(3 unchanged)\nRevision 2")
	b.does([]string{"delete", "provider", "one"}, "- provider one", "Revision 3")
	if out := b.does([]string{"get", "providers"}); strings.Contains(out, "name: one") {
		t.Errorf("it is still there:\n%s", out)
	}
}

// What weir get prints is the whole policy: weir apply --prune=keys of it changes nothing.
func TestGetWithoutAKind(t *testing.T) {
	b := newBench(t)
	if code, stdout, stderr := weir(t, append([]string{"get"}, b.flags...)...); code != exitOK || stdout != "" || stderr != "The policy is empty.\n" {
		t.Errorf("before anything: code %d, %q %q", code, stdout, stderr)
	}
	b.does([]string{"apply", "-f", b.file(`routes_only: true
classes:
  - {name: verify, priority: urgent}
tenants:
  - {name: acme, callback: {url: "https://acme.example/hook", secret: "${SECRET}"}}
templates:
  - {name: code, channel: sms, body: "Your code is {{code}}"}
` + twoProviders)}, "Revision 1")
	b.does([]string{"keys", "create", "shop", "--tenant", "acme"})
	for _, args := range [][]string{{"get"}, {"get", "--json"}} {
		again := b.file(b.does(args, "verify", "${TOKEN}", "routes_only", "shop"))
		b.does([]string{"apply", "-f", again, "--prune=keys"}, "Nothing to change. Revision 2")
	}
}

// Lanes only grow: apply makes the topics' partitions before the revision, and
// refuses fewer.
func TestLanesGrow(t *testing.T) {
	b := newBench(t)
	lanes := func(n int) string {
		return b.file(fmt.Sprintf("providers: [{name: one, type: simulated, channels: [sms], pace: [10/1s], lanes: %d}]", n))
	}
	have := func() map[string]int {
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		names := topics.Names{}
		list := []string{names.Journal("one")}
		for _, q := range topics.Queues {
			list = append(list, names.Dispatch("one", q))
		}
		got, err := kadm.NewClient(cl).ListTopics(t.Context(), list...)
		if err != nil {
			t.Fatal(err)
		}
		counts := make(map[string]int)
		for _, d := range got {
			counts[d.Topic] = len(d.Partitions)
		}
		return counts
	}
	want := func(n int) {
		t.Helper()
		counts := have()
		if len(counts) != 5 {
			t.Fatalf("topics %v", counts)
		}
		for topic, got := range counts {
			if got != n {
				t.Errorf("%s has %d partitions, want %d", topic, got, n)
			}
		}
	}
	b.does([]string{"apply", "-f", lanes(1)}, "Revision 1")
	want(1)
	b.does([]string{"apply", "-f", lanes(3)}, "~ provider one  lanes: 1 → 3", "Revision 2")
	want(3)
	b.fails([]string{"apply", "-f", lanes(2)}, "lanes only grow: ")
	b.fails([]string{"apply", "-f", lanes(11)}, "lanes: 10 or fewer")
	want(3)
}

// A provider's name keeps who reads its queues, also when it was taken out in
// between: lanes would send again what a consumer has sent.
func TestQueuesKeepTheirReaders(t *testing.T) {
	b := newBench(t)
	of := func(kind string) string {
		return b.file("providers: [{name: one, type: " + kind + ", channels: [sms]}]")
	}
	b.does([]string{"apply", "-f", of("external")}, "Revision 1")
	b.does([]string{"apply", "-f", of("none")}, "Revision 2")
	b.does([]string{"delete", "provider", "one"}, "Revision 3")
	b.fails([]string{"apply", "-f", of("simulated")}, "revision 1: provider one was of type external and cannot become simulated")
	b.fails([]string{"apply", "--dry-run", "-f", of("simulated")}, "cannot become simulated")
	b.does([]string{"apply", "-f", of("external")}, "Revision 4")
}

// A dry run exits as apply would.
func TestDryRunSaysWhatWouldBeRefused(t *testing.T) {
	b := newBench(t)
	of := func(match string) string {
		return b.file("limits:\n  - {name: verify, match: {" + match + "}, per: [recipient], allow: [1/60s]}\nclasses: [{name: verify}, {name: other}]\n")
	}
	b.does([]string{"apply", "-f", of("class: verify")}, "Revision 1")
	const lost = "limit verify: 1/60s would not count what was sent from "
	for _, more := range [][]string{{"--dry-run"}, {"--dry-run", "--json"}} {
		code, stdout, stderr := weir(t, append(append([]string{"apply", "-f", of("class: other")}, more...), b.flags...)...)
		if code != exitError || !strings.Contains(stderr, "unless --accept-loss is given") || len(more) == 1 && !strings.Contains(stdout, lost) || len(more) == 2 && !strings.Contains(stdout, `"lost": [`) {
			t.Errorf("%v: exit %d, %s%s", more, code, stdout, stderr)
		}
	}
	b.does([]string{"apply", "-f", of("class: other"), "--dry-run", "--accept-loss"}, lost, "revision 1 is in force")
	b.fails([]string{"apply", "-f", of("class: other")}, lost)
	b.does([]string{"apply", "-f", of("class: other"), "--accept-loss"}, "Revision 2")
}
