package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestUnknownVariables(t *testing.T) {
	for _, tt := range []struct{ text, misspelt, other string }{
		{"WEIR_KAFKA_BROKERS=a:1", "", ""},
		{"WEIR_API_KEY=x", "", ""},
		{"WEIR_CLICKHOUSE_PASSWORD=x", "", ""}, // Grafana's
		{"WEIRD=x", "", ""},
		{"WEIR_KAFKA_BROKER=a:1", "did you mean WEIR_KAFKA_BROKERS?", ""},
		{"WEIR_CLICKHOUSE_URI=http://a", "did you mean WEIR_CLICKHOUSE_URL?", ""},
		{"WEIR_API_KEYS=x", "did you mean WEIR_API_KEY?", ""},
		{"WEIR_SLACK=x", "", "WEIR_SLACK"},
		{"WEIR_S_ROLE=x", "", ""}, // begins with the secrets' prefix
		// What Kubernetes sets for services weir, weir-ingest, weir-kafka and one with a named port.
		{"WEIR_SERVICE_HOST=10.0.0.1", "", ""},
		{"WEIR_SERVICE_PORT=8080", "", ""},
		{"WEIR_SERVICE_PORT_HTTP=8080", "", ""},
		{"WEIR_PORT=tcp://10.0.0.1:8080", "", ""},
		{"WEIR_PORT_8080_TCP=tcp://10.0.0.1:8080", "", ""},
		{"WEIR_PORT_8080_TCP_PROTO=tcp", "", ""},
		{"WEIR_PORT_8080_TCP_PORT=8080", "", ""},
		{"WEIR_PORT_8080_TCP_ADDR=10.0.0.1", "", ""},
		{"WEIR_PORT_53_UDP=udp://10.0.0.1:53", "", ""},
		{"WEIR_INGEST_SERVICE_HOST=10.0.0.1", "", ""},
		{"WEIR_KAFKA_PORT=tcp://10.0.0.1:9092", "", ""},
		{"WEIR_KAFKA_PORT=9092", "", "WEIR_KAFKA_PORT"},
		{"WEIR_PORT_8080_TCP_HOST=x", "", "WEIR_PORT_8080_TCP_HOST"},
	} {
		misspelt, others := unknownVariables([]string{tt.text, "PATH=/bin"}, "WEIR_S_")
		if got := fmt.Sprint(errors.Join(misspelt...)); tt.misspelt == "" && len(misspelt) > 0 || !strings.Contains(got, tt.misspelt) || strings.Join(others, " ") != tt.other {
			t.Errorf("%s: %s, %v", tt.text, got, others)
		}
	}
}

// A process does not start with a setting that is misspelt, and names what it does not know.
func TestAMisspeltVariableStopsAProcess(t *testing.T) {
	t.Setenv("WEIR_SLACK", "x")
	if code, _, stderr := weir(t, "config", "check"); code != exitOK || !strings.Contains(stderr, "WEIR_SLACK is no setting") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	t.Setenv("WEIR_KAFKA_BROKER", "a:1")
	for _, args := range [][]string{{"run"}, {"dev", "--dir", t.TempDir()}, {"status", "--dir", t.TempDir()}} {
		if code, _, stderr := weir(t, args...); code != exitUsage || !strings.Contains(stderr, "there is no setting WEIR_KAFKA_BROKER; did you mean WEIR_KAFKA_BROKERS?") {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
	if code, _, stderr := weir(t, "config", "check"); code != exitError || !strings.Contains(stderr, "did you mean WEIR_KAFKA_BROKERS?") {
		t.Errorf("config check: exit %d, %s", code, stderr)
	}
}

// The variables by which tests and benchmarks are run resemble no setting.
func TestVariablesOfTestsAreNoSettings(t *testing.T) {
	for _, name := range []string{"CHAOS", "CHAOS_SCALE", "CHAOS_CLOCK", "CHAOS_MESSAGES", "CHAOS_LOAD", "CHAOS_KILLS", "CHAOS_BACKLOG", "CHAOS_INSIDE", "CHAOS_DIR", "SEED", "SIM_SEEDS", "SIM_FIRST", "CHROMIUM",
		"REDIS_SERVER", "KEY", "TOKEN", "SID", "SEARCH_MESSAGES", "HANDED_MESSAGES", "ALIKE_MESSAGES", "PROMETHEUS_URL", "DASHBOARDS", "CROWD", "TEST_KAFKA_PARENT", "PROVIDERTEST", "BENCH_RESTORE_WORKER", "BENCH_OVERLOAD", "BENCH_OVERLOAD_ASK", "BENCH_OVERLOAD_NICE", "BENCH_DELAY_WORKER"} {
		if misspelt, _ := unknownVariables([]string{"WEIR_" + name + "=1"}, ""); len(misspelt) > 0 {
			t.Error(misspelt)
		}
	}
	if misspelt, _ := unknownVariables(slices.Clone(os.Environ()), ""); len(misspelt) > 0 {
		t.Error(misspelt)
	}
}
