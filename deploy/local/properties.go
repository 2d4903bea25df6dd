package local

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// brokerSession is how long the controller waits for a silent broker.
const brokerSession = 3 * time.Second

// apartID is the id of a controller of its own.
const apartID = 100

// node is one broker, which is a controller too unless that is apart.
type node struct {
	ID         int    `json:"id"`
	Host       string `json:"host,omitempty"` // "" is 127.0.0.1
	Port       int    `json:"port"`           // for clients and brokers; 0 for a controller apart
	Controller int    `json:"controller"`     // for the quorum
	Directory  string `json:"directory"`      // Kafka's id of the log directory
}

func (n node) host() string { return cmp.Or(n.Host, "127.0.0.1") }

// plan is what a cluster's directory keeps, so that a later start finds the same
// brokers at the same addresses.
type plan struct {
	Cluster string `json:"cluster"` // Kafka's id
	Nodes   []node `json:"nodes"`
	Apart   *node  `json:"apart,omitzero"` // the controller, where it is a process of its own
}

func (p plan) addrs() []string {
	var out []string
	for _, n := range p.Nodes {
		out = append(out, fmt.Sprintf("%s:%d", n.host(), n.Port))
	}
	return out
}

// initialControllers is the argument of that name for the format of more than one
// node: id@host:port:directory, joined by commas (KIP-853).
func (p plan) initialControllers() string {
	var out []string
	for _, n := range p.Nodes {
		out = append(out, fmt.Sprintf("%d@%s:%d:%s", n.ID, n.host(), n.Controller, n.Directory))
	}
	return strings.Join(out, ",")
}

// properties is the server.properties of node i below dir; the one after the
// brokers is the controller apart.
func (p plan) properties(i int, dir string) string {
	copies := len(p.Nodes)
	inSync := copies/2 + 1
	controllers := p.Nodes
	if p.Apart != nil {
		controllers = []node{*p.Apart}
	}
	var quorum []string
	for _, n := range controllers {
		quorum = append(quorum, fmt.Sprintf("%s:%d", n.host(), n.Controller))
	}
	var n node
	var roles, listeners string
	switch {
	case i == len(p.Nodes):
		n = *p.Apart
		roles, listeners = "controller", fmt.Sprintf("CONTROLLER://%s:%d", n.host(), n.Controller)
	case p.Apart != nil:
		n = p.Nodes[i]
		roles, listeners = "broker", fmt.Sprintf("CLIENT://%s:%d", n.host(), n.Port)
	default:
		n = p.Nodes[i]
		roles, listeners = "broker,controller", fmt.Sprintf("CLIENT://%s:%d,CONTROLLER://%s:%d", n.host(), n.Port, n.host(), n.Controller)
	}
	lines := []string{
		"process.roles=" + roles,
		fmt.Sprintf("node.id=%d", n.ID),
		"listeners=" + listeners,
		"listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"inter.broker.listener.name=CLIENT",
		"controller.listener.names=CONTROLLER",
		// Not controller.quorum.voters: a directory formatted as below refuses it.
		"controller.quorum.bootstrap.servers=" + strings.Join(quorum, ","),
		"log.dirs=" + filepath.Join(dir, "data"),
		"auto.create.topics.enable=false",
		"group.initial.rebalance.delay.ms=0",
		fmt.Sprintf("default.replication.factor=%d", copies),
		fmt.Sprintf("min.insync.replicas=%d", inSync),
		// A killed broker's registration stands in the way of its own restart, and
		// of a new leader, until its session ends: 9 s by default.
		fmt.Sprintf("broker.session.timeout.ms=%d", brokerSession.Milliseconds()),
		"broker.heartbeat.interval.ms=500",
		// Fewer than Kafka's 50: the first transaction and group wait for them.
		"offsets.topic.num.partitions=8",
		"transaction.state.log.num.partitions=8",
		"share.coordinator.state.topic.num.partitions=4",
	}
	for _, topic := range []string{"offsets.topic", "transaction.state.log", "share.coordinator.state.topic"} {
		lines = append(lines, fmt.Sprintf("%s.replication.factor=%d", topic, copies))
		if topic != "offsets.topic" {
			lines = append(lines, fmt.Sprintf("%s.min.isr=%d", topic, inSync))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
