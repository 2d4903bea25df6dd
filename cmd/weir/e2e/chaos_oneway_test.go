//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/deploy/local"
)

// Partitions in one direction take a network of their own: each broker and a worker are in a
// network namespace, joined by a router, which is the namespace of the test itself. So the
// test runs itself again in namespaces of its own. What it makes there ends with it, and the
// machine's own network is not touched.

const oneWayName = "one-way partitions"

const insideVar = "WEIR_CHAOS_INSIDE"

// A party is a namespace and its number: party n has the address 10.77.n.2, and the router
// 10.77.n.1 towards it.
var parties = []string{"broker0", "broker1", "broker2", "worker"}

func address(party int) string { return fmt.Sprintf("10.77.%d.2", party) }

func within(party int) []string { return []string{"ip", "netns", "exec", parties[party]} }

func init() {
	scenarios = append(scenarios, scenario{oneWayName,
		local.Options{Brokers: 3, Hosts: []string{address(0), address(1), address(2)}, Before: within}, oneWay, network})
}

// outside runs the test once more in namespaces of its own, and reports whether this is not
// those.
func outside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVar) != "" {
		return false
	}
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	for _, tool := range []string{"ip", "iptables", "unshare", "sysctl"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		t.Fatalf("NOT RUN: one-way partitions. Missing: %s (Debian: iproute2, iptables, util-linux, procps).", strings.Join(missing, ", "))
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", os.Args[0], "-test.run", "^TestChaos$/^one-way_partitions$", "-test.v", "-test.timeout", "60m")
	cmd.Env = append(os.Environ(), insideVar+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("in namespaces of its own: %v", err)
	}
	return true
}

// network makes the namespaces and the router.
func network(t *testing.T, _ string) {
	script := []string{"set -e", "mkdir -p /run/netns", "mount -t tmpfs tmpfs /run/netns", "ip link set lo up", "sysctl -qw net.ipv4.ip_forward=1"}
	for n, party := range parties {
		script = append(script,
			"ip netns add "+party,
			fmt.Sprintf("ip link add to-%s type veth peer name eth0 netns %s", party, party),
			fmt.Sprintf("ip address add 10.77.%d.1/24 dev to-%s", n, party),
			fmt.Sprintf("ip link set to-%s up", party),
			fmt.Sprintf("ip netns exec %s ip address add %s/24 dev eth0", party, address(n)),
			fmt.Sprintf("ip netns exec %s ip link set lo up", party),
			fmt.Sprintf("ip netns exec %s ip link set eth0 up", party),
			fmt.Sprintf("ip netns exec %s ip route add default via 10.77.%d.1", party, n))
	}
	script = append(script, "iptables -P FORWARD ACCEPT")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Join(script, "\n")).CombinedOutput(); err != nil {
		t.Fatalf("make a network: %v: %s", err, out)
	}
}

// A cut drops every packet from some parties to others; the way back stays.
type cut struct {
	name     string
	from, to []int
}

func (c cut) rules(t *testing.T, verb string) {
	t.Helper()
	for _, from := range c.from {
		for _, to := range c.to {
			if out, err := exec.CommandContext(t.Context(), "iptables", verb, "FORWARD", "-s", address(from), "-d", address(to), "-j", "DROP").CombinedOutput(); err != nil {
				t.Fatalf("iptables %s: %v: %s", verb, err, out)
			}
		}
	}
}

// dropped is how many packets the router dropped.
func dropped(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "iptables -nvxL FORWARD | awk '$3 == \"DROP\" {n += $1} END {print n+0}'").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

var cuts = []cut{
	{"what the worker sends to any broker", []int{3}, []int{0, 1, 2}},
	{"what any broker sends to the worker", []int{0, 1, 2}, []int{3}},
	{"what the worker sends to one broker", []int{3}, []int{0}},
	{"what one broker sends to the worker", []int{1}, []int{3}},
	{"what one broker sends to another", []int{0}, []int{1}},
	{"what one broker sends to the others", []int{2}, []int{0, 1}},
}

// oneWay cuts the network in one direction, each time for longer than a session, and heals
// it. One of two workers is behind the cuts; the other is not.
func oneWay(t *testing.T, k *local.Kafka, _ scale) figures {
	x := newTraffic(t, k.Addrs(), "oneway", "10.77.3.1", 20)
	x.env = []string{"WEIR_PROVIDER_ALLOW_PRIVATE=10.77.0.0/16"}
	w := x.run(0, roles)
	x.within = within(3)
	behind := x.run(1, roles)
	x.stable(2)
	x.start(100)
	x.until(500)
	for _, c := range cuts {
		c.rules(t, "-A")
		x.note("dropped from now on: %s", c.name)
		x.wait(session + 8*time.Second)
		n := dropped(t)
		c.rules(t, "-D")
		x.note("healed, after %s packets were dropped", n)
		if n == "0" {
			t.Errorf("nothing was dropped of %s", c.name)
		}
		x.whole()
		x.stable(2)
		x.until(x.count() + 500)
	}
	x.finish()
	if ended := x.quiet(w, behind); ended != nil {
		t.Errorf("%s ended on its own: %s", ended.Name, ended.Tail(5))
	}
	x.stop(w, behind)
	x.marked()
	f := x.judge()
	f.sound(t, false)
	if f.Outcome != "proven" || len(f.over)+len(f.twice)+len(f.lost) > 0 {
		t.Errorf("%s", f)
	}
	return figures{said: fmt.Sprintf("%d cuts; %s", len(cuts), f)}
}
