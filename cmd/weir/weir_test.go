package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/embedded/broker"
	"github.com/weirhq/weir/deploy/embedded/child"
	"github.com/weirhq/weir/ingest/client"
	"github.com/weirhq/weir/schemas"
)

func TestMain(m *testing.M) {
	child.Main(map[string]child.Role{broker.Name: broker.Role})
	os.Exit(m.Run())
}

// weir runs the program in this process.
func weir(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, func(string) string { return "" }, &out, &errs)
	return code, out.String(), errs.String()
}

func TestWrongUsageExitsWithTwo(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"fly"}, `no command "fly"`},
		{[]string{"ladger"}, `no command "ladger"; did you mean ledger?`},
		{[]string{"send", "--too", "x"}, "there is no flag --too; did you mean --to?"},
		{[]string{"send"}, "--to is missing"},
		{[]string{"send", "--to", "x", "--body", "code", "1", "--wait"}, `takes no argument "1"; a text with spaces is to be in quotes`},
		{[]string{"send", "--to", "x", "--timeout", "-5s"}, "--timeout"},
		{[]string{"status", "x"}, `takes no argument "x"`},
		{[]string{"version", "x"}, `takes no argument "x"`},
		{[]string{"tail", "--since", "-5m"}, "since"},
		{[]string{"help", "fly"}, `no command "fly"`},
		{[]string{"apply"}, "-f"},
		{[]string{"apply", "-f", "a.yaml", "b.yaml"}, "no argument"},
		{[]string{"get", "limit", "a", "b"}, "takes a kind"},
		{[]string{"get", "things"}, `no kind "things"`},
		{[]string{"get", "revision", "last"}, "no number"},
		{[]string{"delete", "limit"}, "a kind and a name"},
		{[]string{"delete", "revisions", "1"}, `no kind "revisions"`},
		{[]string{"keys"}, "create, rotate or revoke"},
		{[]string{"keys", "create"}, "name one key"},
		{[]string{"keys", "create", "a", "b"}, "name one key"},
		{[]string{"keys", "create", "a", "--expires", "soon"}, "neither a duration"},
		{[]string{"keys", "create", "a", "--quiet", "--json"}, "exclude"},
		{[]string{"keys", "rotate", "a", "--overlap", "long"}, "not a duration"},
		{[]string{"topics"}, "plan or apply"},
		{[]string{"config"}, "check or explain"},
		{[]string{"run", "--roles", "admission,cooking"}, `no role "cooking"`},
		{[]string{"run", "--kafka-partitions", "many"}, "no whole number"},
		{[]string{"run", "--slot", "first"}, "no number"},
		{[]string{"run", "--admission-standby=yes"}, "neither true nor false"},
		{[]string{"run", "--http-trusted-proxies", "10.0.0.0/8,proxy"}, `"proxy" is no network`},
		{[]string{"run", "--http-trusted-proxies", "10.0.0.1/8"}, `"10.0.0.1/8" is no network`},
		{[]string{"run", "--http-trusted-proxies", "::ffff:10.0.0.0/104"}, "is no network"},
		{[]string{"dev", "--nope"}, "nope"},
		{[]string{"dlq"}, "list, show or redrive"},
		{[]string{"alerts"}, "say test"},
		{[]string{"alerts", "test"}, "name one alert"},
		{[]string{"dlq", "list", "3/17"}, "takes no argument"},
		{[]string{"suppressions"}, "list, add, remove or import"},
		{[]string{"suppressions", "list", "+8613800000000"}, "takes no argument"},
		{[]string{"suppressions", "add"}, "needs --to"},
		{[]string{"suppressions", "remove", "a@b.example"}, "takes no argument; --to names"},
		{[]string{"suppressions", "import"}, "takes one file"},
		{[]string{"suppressions", "add", "--to", "a@b.example", "--expires", "soon"}, "neither a time"},
		{[]string{"dlq", "show"}, "one position or id"},
		{[]string{"dlq", "redrive", "--rate", "fast"}, "no rate"},
		{[]string{"dlq", "redrive", "--rate", "20000/s"}, "is the most"},
		{[]string{"dlq", "redrive", "--resume", "--class", "x"}, "give none"},
		{[]string{"dlq", "redrive", "--resume", "--all"}, "give none"},
		{[]string{"dlq", "redrive"}, "say what to send again"},
		{[]string{"dlq", "redrive", "--again"}, "say what to send again"},
		{[]string{"dlq", "redrive", "--all", "--class", "x"}, "give one of both"},
		{[]string{"dlq", "list", "--since", "yesterday"}, "neither a duration"},
	} {
		code, _, stderr := weir(t, c.args...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("weir %v: code %d, %q; want code 2 with %q", c.args, code, stderr, c.want)
		}
	}
}

func TestEveryCommandHasHelpWithItsFlags(t *testing.T) {
	_, all, _ := weir(t, "help")
	for _, cmd := range commands() {
		if !strings.Contains(all, cmd.name) {
			t.Errorf("help does not list %s", cmd.name)
		}
		code, stdout, stderr := weir(t, cmd.name, "--help")
		if code != exitOK || !strings.Contains(stdout, "Usage: weir "+cmd.name) || cmd.example == "" || !strings.Contains(stdout, cmd.example) {
			t.Errorf("weir %s --help: code %d, %q %q", cmd.name, code, stdout, stderr)
		}
	}
}

// TestHelpHasTheCommandsOwnFlags: settings, which every command takes, are listed for a process of
// Weir's alone.
func TestHelpHasTheCommandsOwnFlags(t *testing.T) {
	for command, own := range map[string]string{"send": "--to STRING", "tail": "--status", "audit": "--since", "dev": "--fresh"} {
		if _, out, _ := weir(t, command, "--help"); !strings.Contains(out, own) || strings.Contains(out, "--kafka-partitions") {
			t.Errorf("weir %s --help:\n%s", command, out)
		}
	}
	for _, command := range []string{"run", "config"} {
		if _, out, _ := weir(t, command, "--help"); !strings.Contains(out, "--kafka-partitions VALUE") {
			t.Errorf("weir %s --help:\n%s", command, out)
		}
	}
	_, out, _ := weir(t, "--version")
	if _, want, _ := weir(t, "version"); out == "" || out != want {
		t.Errorf("weir --version: %q, want %q", out, want)
	}
}

// TestExitCodesAreListed: weir help and docs/exit-codes.md list the exit codes of all commands, and
// --help those of its own.
func TestExitCodesAreListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, all, _ := weir(t, "help")
	_, list, _ := strings.Cut(all, "\nExit codes:\n")
	list, _, _ = strings.Cut(list, "\n\nweir COMMAND")
	for part := range strings.SplitSeq(list, "\n\n") { // of one command
		if part = "    " + strings.ReplaceAll(strings.TrimSpace(part), "\n  ", "\n    "); !strings.Contains(string(page), part+"\n") {
			t.Errorf("docs/exit-codes.md has not:\n%s", part)
		}
	}
	for _, one := range commands() {
		command := one.name
		if len(one.exits) == 0 {
			continue
		}
		_, help, _ := weir(t, command, "--help")
		_, own, _ := strings.Cut(help, "\nExit codes:\n")
		own, _, _ = strings.Cut(own, "\n\n")
		if own == "" || !strings.Contains(list, "  weir "+command+":\n    "+strings.TrimSpace(strings.ReplaceAll(own, "\n", "\n  "))) {
			t.Errorf("weir %s --help: %q; weir help:\n%s", command, own, list)
		}
	}
}

// Every command that reads a cluster or speaks HTTP finds a weir dev by its directory, and says so
// where none has run, however the directory was named.
func TestEveryCommandTakesTheDirectory(t *testing.T) {
	for _, one := range known(t.Context(), &call{all: commands(), getenv: func(string) string { return "" }}) {
		has := func(name string) bool {
			return slices.ContainsFunc(one.flags, func(f *flag.Flag) bool { return f.Name == name })
		}
		if has("kafka-brokers") && !one.process && !has("dir") {
			t.Errorf("weir %s has no --dir", one.name)
		}
	}
	dir := t.TempDir()
	for want, args := range map[string][]string{"--dir " + dir: {"status", "--dir", dir}, "WEIR_DIR " + dir: {"status"}} {
		var errs bytes.Buffer
		code := run(t.Context(), args, func(name string) string { return map[string]string{"WEIR_DIR": dir}[name] }, io.Discard, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), want+": no weir dev has run there") {
			t.Errorf("%v: exit %d, %s", args, code, &errs)
		}
	}
}

// TestCompletion has a shell complete: commands, the words of one, and flags.
func TestCompletion(t *testing.T) {
	_, script, _ := weir(t, "completion", "bash")
	for words, want := range map[string]string{"weir led": "ledger", "weir ledger re": "repair", "weir send --wa": "--wait", "weir completion f": "fish", "weir comp": "completion"} {
		bash := exec.CommandContext(t.Context(), "bash", "-c", script+"\nCOMP_WORDS=("+words+"); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _weir; echo ${COMPREPLY[@]}")
		if out, err := bash.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v, want %q", words, out, err, want)
		}
	}
	if _, zsh, _ := weir(t, "completion", "zsh"); !strings.HasPrefix(zsh, "#compdef weir\n") || !strings.HasSuffix(zsh, script) {
		t.Errorf("zsh:\n%s", zsh)
	}
	if _, fish, _ := weir(t, "completion", "fish"); !strings.Contains(fish, "complete -c weir -n '__fish_seen_subcommand_from ledger' -a 'check repair'\n") {
		t.Errorf("fish:\n%s", fish)
	}
}

func TestFlagsBeatEnvironmentBeatsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("kafka:\n  brokers: [file:1, file:2]\n  partitions: 16\nslot: 1\nlog.level: debug\nadmission.standby: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"WEIR_KAFKA_PARTITIONS": "17", "WEIR_SLOT": "2"}
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	load := settingsFlags(fs, defaultSettings(), func(k string) string { return env[k] })
	if err := fs.Parse([]string{"--config", file, "--slot", "3"}); err != nil {
		t.Fatal(err)
	}
	l, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Brokers) != 2 || l.Brokers[0] != "file:1" || l.Partitions != 17 || l.Slot != "3" || !l.Standby || l.LogLevel != "debug" || l.HTTP != defaultSettings().HTTP {
		t.Errorf("settings %+v", l.Settings)
	}
	for key, want := range map[string]string{"kafka.brokers": file + ":2:12", "kafka.partitions": "WEIR_KAFKA_PARTITIONS", "slot": "--slot", "http.listen": "default"} {
		if l.from[key] != want {
			t.Errorf("%s comes from %q, want %q", key, l.from[key], want)
		}
	}
}

// Passwords in URLs are neither explained nor part of an error; files of secrets are named.
func TestSecretsAreMasked(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"http://weir:hunter2@a:8123/weir", "http://weir:***@a:8123/weir"},
		{"http://weir:hunt/er@2@a:8123/weir?x=1", "http://weir:***@a:8123/weir?x=1"},
		{"http://:hunter2@a", "http://:***@a"},
		{"https://a/?password=hunter2&x=1", "https://a/?password=***&x=1"},
		{"https://weir@a:8443", "https://weir@a:8443"},
		{"https://a/?pass=hunter2", "https://a/?pass=***"},
		{"weir:hunter2@a:8123", "weir:***@a:8123"},
		{"a:9092,weir:hunter2@b:9092", "a:9092,weir:***@b:9092"},
		{"10.0.0.5:9092,10.0.0.6:9092", "10.0.0.5:9092,10.0.0.6:9092"},
		{"/run/secrets/key", "/run/secrets/key"},
	} {
		if got := masked(tt.text); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.text, got, tt.want)
		}
	}
	code, out, stderr := weir(t, "config", "explain", "--clickhouse-url", "http://weir:hunter2@a:8123", "--clickhouse-hash-key-file", "/run/hash")
	if code != exitOK || strings.Contains(out, "hunter2") || !strings.Contains(out, "http://weir:***@a:8123") || !strings.Contains(out, "/run/hash") || !strings.Contains(out, "--clickhouse-url") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	if _, _, stderr := weir(t, "run", "--http-public-url", "http://weir:hunter2@a"); strings.Contains(stderr, "hunter2") || !strings.Contains(stderr, "http.public_url") {
		t.Error(stderr)
	}
}

func TestDegradedJournalSettings(t *testing.T) {
	load := func(args ...string) (*loaded, error) {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		load := settingsFlags(fs, defaultSettings(), func(string) string { return "" })
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		return load()
	}
	if l, err := load("--http-degraded-journal", "/var/lib/weir"); err != nil || l.Degraded != "/var/lib/weir" || l.DegradedBytes != 64<<20 {
		t.Errorf("%+v %v", l, err)
	}
	if _, err := load("--http-degraded-journal-bytes", "1000"); err == nil || !strings.Contains(err.Error(), "http.degraded_journal_bytes: 1000 is out of range: 1048576 to ") {
		t.Errorf("%v", err)
	}
}

// A value that cannot be meant is an error that names where it came from, its setting, and an example.
func TestSettingsAreChecked(t *testing.T) {
	for _, tt := range []struct{ key, bad, want, good string }{
		{"kafka.brokers", " , ", "is empty: name at least one broker, such as 127.0.0.1:9092", "a:1,b,[::1]:9092,[::1],10.0.0.5:9092"},
		{"kafka.brokers", "http://a:9092", `"http://a:9092" is no address of a broker`, "weir-kafka.svc:9092"},
		{"kafka.brokers", "a:9092,b:x", `"b:x" is no address of a broker`, "a"},
		{"kafka.brokers", "a b", "is no address of a broker", "a"},
		{"kafka.brokers", ":9092", "is no address of a broker", "a"},
		{"kafka.brokers", "a:99999", "is no address of a broker", "a:65535"},
		{"kafka.prefix", "a_b", "letters, digits, dots and hyphens", "acme.weir."},
		{"kafka.partitions", "0", "0 is out of range: 1 to 10000, such as 32", "1"},
		{"kafka.partitions", "-3", "-3 is out of range", "10000"},
		{"kafka.partitions", "4294967297", "is out of range", "32"},
		{"kafka.replication", "-1", "-1 is out of range: 0 to 100, such as 3", "0"},
		{"clickhouse.url", "a:8123", "such as http://127.0.0.1:8123", "http://a:8123/weir"},
		{"clickhouse.url", "http://", "names no host", "https://weir:x@a"},
		{"clickhouse.url", "http://a:99999", "port", "https://a"},
		{"clickhouse.cluster", "a'b", "cluster", "weir_1"},
		{"http.listen", "8080", `"8080" is no address to listen on: write a host and a port, such as 127.0.0.1:8080`, "127.0.0.1:0"},
		{"http.listen", "http://a:8080", "is no address to listen on", "[::1]:8080"},
		{"http.listen", "a:", "is no address to listen on", "a:http"},
		{"http.public_url", "weir.example.com", "such as https://weir.example.com", "https://weir.example.com/"},
		{"http.public_url", "https://a:99999", "such as https://weir.example.com", "https://weir.example.com:8443"},
		{"metrics.listen", "metrics", "is no address to listen on", ":9100"},
		{"roles", "lanes,lane", `there is no role "lane"`, "lanes"},
		{"roles", "console", "console needs ingest", "console,ingest"},
		{"shutdown.grace", "-1s", "no duration, such as 25s", "1m"},
		{"slot", "-1", `"-1" is no number from 0`, "3"},
		{"shutdown.grace", "0s", "0s is out of range: 1s to 10m0s, such as 25s", "10m"},
		{"secrets.dir", "secrets", "no absolute path, such as /run/secrets", "/run/secrets"},
		{"log.level", "loud", "debug, info, warn or error", "debug"},
	} {
		i := slices.IndexFunc(settings, func(s setting) bool { return s.key == tt.key })
		flag := "--" + settings[i].flag()
		for _, command := range [][]string{{"config", "check"}, {"run"}} {
			if code, _, stderr := weir(t, append(command, flag, tt.bad)...); code == exitOK || !strings.Contains(stderr, flag+": "+tt.key+": ") || !strings.Contains(stderr, tt.want) {
				t.Errorf("weir %v %s %q: exit %d, %s", command, flag, tt.bad, code, stderr)
			}
		}
		if code, _, stderr := weir(t, "config", "check", flag, tt.good); code != exitOK {
			t.Errorf("%s %q: %s", flag, tt.good, stderr)
		}
	}
	if code, _, stderr := weir(t, "dev", "--dir", t.TempDir(), "--http", "nowhere", "--log-level", "loud"); code != exitUsage || !strings.Contains(stderr, "http.listen: ") || !strings.Contains(stderr, "log.level: ") {
		t.Errorf("weir dev: exit %d, %s", code, stderr)
	}
}

func TestSettingsFileSaysWhereItIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("kafka:\n  brokers: a:1\n  broker: b:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := weir(t, "config", "check", "--config", file)
	if code != exitError || !strings.Contains(stderr, file+":3:11") || !strings.Contains(stderr, "kafka.broker") {
		t.Errorf("code %d, %q", code, stderr)
	}
}

func TestApplyChangesNothingUnlessAllIsValid(t *testing.T) {
	b := newBench(t)
	at := b.flags
	const good = "limits:\n  - {name: a, per: [recipient], allow: [1/60s]}\nproviders:\n  - {name: one, type: simulated, channels: [sms]}\n"
	apply := func(text string) (int, string, string) {
		return weir(t, append([]string{"apply", "-f", b.file(text)}, at...)...)
	}
	if code, stdout, stderr := apply(good); code != exitOK || !strings.Contains(stdout, "Revision 1") {
		t.Fatalf("code %d, %q %q", code, stdout, stderr)
	}
	for name, c := range map[string]struct{ text, want string }{
		"negative n":                       {"limits:\n  - {name: a, per: [recipient], allow: [-1/60s]}\n", "policy.yaml:2:"},
		"no such type":                     {"providers:\n  - {name: a, type: pigeon, channels: [sms]}\n", "policy.yaml:2:"},
		"unknown field":                    {"limit:\n  - {}\n", "policy.yaml:1:1"},
		"exempt by another spelling":       {"limits:\n  - {name: a, per: [recipient], allow: [1/60s], exempt: [\"+86013800000000\"]}\n", `"+86013800000000" is "+8613800000000" to Weir`},
		"override by another spelling":     {"limits:\n  - {name: a, per: [recipient], allow: [1/60s], overrides: [{to: \"a@bücher.example\", allow: [2/60s]}]}\n", `"a@xn--bcher-kva.example" to Weir`},
		"override of an impossible number": {"limits:\n  - {name: a, per: [recipient], allow: [1/60s], overrides: [{to: \"+8613800\", allow: [2/60s]}]}\n", "impossible"},
	} {
		if code, _, stderr := apply(c.text); code != exitError || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, %q; want %q", name, code, stderr, c.want)
		}
	}
	if code, stdout, stderr := weir(t, append([]string{"status"}, at...)...); code != exitOK || !strings.Contains(stdout, "policy revision 1") {
		t.Errorf("status: code %d, %q %q", code, stdout, stderr)
	}
	if code, stdout, stderr := weir(t, append([]string{"topics", "plan"}, at...)...); code != exitOK {
		t.Errorf("plan: code %d, %q %q", code, stdout, stderr)
	}
	// N is part of the state: another N is refused.
	at[3] = "5"
	if code, _, stderr := weir(t, append([]string{"topics", "apply"}, at...)...); code != exitError || !strings.Contains(stderr, "partition") {
		t.Errorf("another N: code %d, %q", code, stderr)
	}
	if code, _, stderr := weir(t, "run", "--roles", "delay", "--kafka-brokers", b.addr, "--kafka-partitions", "5"); code != exitError || !strings.Contains(stderr, "partition") {
		t.Errorf("run with another N: code %d, %q", code, stderr)
	}
}

func TestExplain(t *testing.T) {
	for field, want := range map[string]string{"limits.on_refusal": `Default:   "reject"`, "limits.timezone": `Default:   "UTC"`, "classes.expires_after": `Default:   "72h"`, "limits.count": "segments"} {
		if code, stdout, stderr := weir(t, "explain", field); code != exitOK || !strings.Contains(stdout, field) || !strings.Contains(stdout, want) {
			t.Errorf("%s: code %d, %q %q", field, code, stdout, stderr)
		}
	}
	if code, stdout, stderr := weir(t, "explain", "limits.alow"); code != exitError || stdout != "" || !strings.Contains(stderr, "did you mean allow") {
		t.Errorf("an unknown field: code %d, %q %q", code, stdout, stderr)
	}
	if code, _, _ := weir(t, "explain"); code != exitUsage {
		t.Errorf("without a field: code %d", code)
	}
}

func TestOutcomeIsOneLine(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		m    client.Message
		want string
	}{
		{client.Message{ID: "i", Status: schemas.StatusSent, Provider: "p"}, "sent      i by p after 7 ms"},
		{client.Message{ID: "i", Status: schemas.StatusLimited, Limit: "verify", Window: "1/60s", RetryAt: schemas.MillisOf(now.Add(58 * time.Second))}, "(58 s)   i"},
		{client.Message{ID: "i", Status: schemas.StatusLimited, Limit: "weight", Window: "5/1h"}, "it can never pass   i"},
		{client.Message{ID: "i", Status: schemas.StatusRejected, Reason: "no_route"}, "rejected  i no_route"},
	} {
		if got := outcome(&c.m, now, 7*time.Millisecond); !strings.HasSuffix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("got %q, want %q at its end", got, c.want)
		}
	}
}

func TestTrustedProxies(t *testing.T) {
	s := Settings{Proxies: []string{"10.0.0.0/8", "192.0.2.7", "2001:db8::/48", "::1"}}
	got, err := s.trustedProxies()
	if want := "[10.0.0.0/8 192.0.2.7/32 2001:db8::/48 ::1/128]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v %v, want %s", got, err, want)
	}
}

// Of a command that looks for damage 1 means that there is some: that it could not look is another code.
func TestCouldNotLookIsNoDamage(t *testing.T) {
	b := newBench(t)
	at := []string{"--kafka-brokers", b.addr, "--dir", t.TempDir()}
	nowhere := []string{"--kafka-brokers", "127.0.0.1:1", "--dir", t.TempDir()}
	clickhouse := []string{"--clickhouse-url", "http://127.0.0.1:1"}
	erase := []string{"erase", "--to", "+8613800138000", "--dry-run"}
	for _, c := range []struct {
		args []string
		want int
	}{
		{slices.Concat([]string{"sink", "check"}, nowhere, clickhouse), exitUntold},
		{slices.Concat([]string{"sink", "repair"}, nowhere, clickhouse), exitUntold},
		{slices.Concat([]string{"sink", "check"}, at, clickhouse), exitUntold},
		{slices.Concat([]string{"sink", "check"}, at), exitUntold},
		{slices.Concat([]string{"sink", "check", "--nope"}, at), exitUsage},
		{slices.Concat([]string{"sink", "check"}, at, []string{"all"}), exitUsage},
		{slices.Concat([]string{"ledger", "check"}, nowhere), exitUntold},
		{slices.Concat([]string{"ledger", "repair"}, nowhere), exitUntold},
		{slices.Concat([]string{"ledger", "check"}, at, []string{"--kafka-prefix", "other"}), exitUntold},
		{slices.Concat([]string{"ledger", "check", "--nope"}, at), exitUsage},
		{slices.Concat([]string{"ledger", "check"}, at, []string{"all"}), exitUsage},
		{slices.Concat(erase, nowhere, clickhouse), exitUntold},
		{slices.Concat(erase, at, clickhouse), exitUntold},
		{slices.Concat([]string{"erase", "--dry-run"}, at), exitUsage},
	} {
		if code, _, stderr := weir(t, c.args...); code != c.want || stderr == "" {
			t.Errorf("weir %v: exit %d, want %d: %s", c.args, code, c.want, stderr)
		}
	}
}
