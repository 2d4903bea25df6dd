package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirhq/weir/ingest"
	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/provider"
	"github.com/weirhq/weir/processor/secret"
	"github.com/weirhq/weir/schemas"
	"github.com/weirhq/weir/topics"
)

// Settings is what an operator says of one process. Each is one setting with
// three ways in: a flag beats the environment, which beats the file.
type Settings struct {
	Brokers          []string
	Prefix           string
	Partitions       int // N
	Replication      int // 0: three, or the number of brokers if fewer
	ClickHouse       string
	Cluster          string // of ClickHouse
	HashKeyFile      string // of recipient_hash
	HTTP             string
	ReferenceKeyFile string   // of what providers are given to give back
	PublicURL        string   // how providers reach the HTTP API
	Proxies          []string // networks whose X-Forwarded-For and Forwarded count
	SessionFile      string
	Degraded         string // directory of decisions that were allowed while Kafka was unreachable
	DegradedBytes    int
	NoAuth           bool   // whoever reaches the HTTP API may do everything
	Metrics          string // where /metrics is, beside the HTTP API
	Roles            []string
	Slot             string
	Standby          bool // of admission's partitions that other workers own
	LogLevel         string
	Grace            time.Duration // of a shutdown, from the signal to the end
	Private          []string      // networks that callbacks and alerts may call although they are not public
	Providers        []string      // networks in which providers may be called although they are not public
	Secrets          secret.Bounds // what a policy may refer to
	Dev              bool          // the cluster is that of a weir dev that runs: no setting, but what clientFlags found
}

// allRoles are the parts of Weir that weir run can run.
var allRoles = []string{"ingest", "inputs", "admission", "lanes", "delay", "receipts", "sink", "callbacks", "alerts", "console"}

// setting is one of them: kafka.brokers in the file, --kafka-brokers,
// WEIR_KAFKA_BROKERS.
type setting struct {
	key   string
	usage string
	value func(*Settings) any   // *string, *bool, *int, *time.Duration or *[]string
	check func(*Settings) error // what its value has to be, with an example; nil: anything
}

var settings = []setting{
	{"kafka.brokers", "addresses of Kafka's brokers, with commas", func(s *Settings) any { return &s.Brokers }, checkBrokers},
	{"kafka.prefix", "begins every topic's name", func(s *Settings) any { return &s.Prefix }, checkPrefix},
	{"kafka.partitions", "partitions of requests and of the state; cannot change later", func(s *Settings) any { return &s.Partitions }, checkPartitions},
	{"kafka.replication", "replicas of each topic; 0 is three, or the number of brokers if fewer", func(s *Settings) any { return &s.Replication }, checkReplication},
	{"clickhouse.url", "http address of ClickHouse; empty keeps status in Kafka only", func(s *Settings) any { return &s.ClickHouse }, checkClickHouse},
	{"clickhouse.cluster", "name of the ClickHouse cluster whose replicas keep Weir's tables, one shard; empty is a single server", func(s *Settings) any { return &s.Cluster }, checkCluster},
	{"clickhouse.hash_key_file", "file with the key of the column recipient_hash, the same for all processes with the role sink, such as openssl rand -hex 32 makes; empty is no key: whoever can read the column and guess a number can tell that it is that number's", func(s *Settings) any { return &s.HashKeyFile }, nil},
	{"http.listen", "address of the HTTP API", func(s *Settings) any { return &s.HTTP }, checkListen},
	{"http.public_url", "how providers reach the HTTP API from outside, such as https://weir.example.com: receipts and inbound messages come to /v1/receipts/NAME and /v1/inbound/NAME under it, and signatures are of the address that the provider called; empty is what the call itself says", func(s *Settings) any { return &s.PublicURL }, checkPublicURL},
	{"receipts.reference_key_file", "file with the key that signs what providers are given to give back with their receipts, the same for all processes with the roles lanes and receipts, such as openssl rand -hex 32 makes; empty is a key of this process alone: receipts of messages that another process sent, or this one before its start, are looked up in ClickHouse", func(s *Settings) any { return &s.ReferenceKeyFile }, nil},
	{"http.trusted_proxies", "networks of the proxies in front of the HTTP API, with commas, such as 10.0.0.0/8: only their X-Forwarded-For and Forwarded say where a call comes from", func(s *Settings) any { return &s.Proxies }, checkProxies},
	{"http.session_secret_file", "file with the secret that seals the console's sessions, the same for all processes behind one address; empty is one of this process alone", func(s *Settings) any { return &s.SessionFile }, nil},
	{"http.degraded_journal", "directory in which this process, and no other, keeps the decisions that it allowed while Kafka was unreachable until it has recorded them, for API keys with on_unavailable: allow; it holds recipients. Empty is none: such keys are then refused as others are", func(s *Settings) any { return &s.Degraded }, nil},
	{"http.degraded_journal_bytes", "how large that journal may become; what is more is refused", func(s *Settings) any { return &s.DegradedBytes }, checkDegradedBytes},
	{"insecure_no_auth", "serve the HTTP API to whoever reaches it, without an API key: as the tenant default, with every scope", func(s *Settings) any { return &s.NoAuth }, nil},
	{"metrics.listen", "address that serves nothing but /metrics: for processes without the role ingest, which serves it with the HTTP API; empty is none", func(s *Settings) any { return &s.Metrics }, checkMetrics},
	{"roles", "what this process does: " + strings.Join(allRoles, ", "), func(s *Settings) any { return &s.Roles }, checkRoles},
	{"slot", "number of this process among its like; empty takes the ordinal in the host's name", func(s *Settings) any { return &s.Slot }, checkSlot},
	{"admission.standby", "follow the partitions that other workers own, so that a takeover reads only what is left: costs each worker the memory of all recipients (about 100 bytes a recipient and limit), and reading what all workers write to the ledger", func(s *Settings) any { return &s.Standby }, nil},
	{"shutdown.grace", "how long an orderly end may take, SIGTERM to exit, 1s to 10m: set it below what the supervisor waits (Kubernetes: 30 s)", func(s *Settings) any { return &s.Grace }, checkGrace},
	{"callback.allow_private", "networks that alerts may call although they are private, link-local or loopback, with commas, such as 10.0.0.0/8", func(s *Settings) any { return &s.Private }, checkCallbackNetworks},
	{"provider.allow_private", "networks in which providers may be called although they are private, link-local or loopback, with commas, such as 10.0.0.0/8", func(s *Settings) any { return &s.Providers }, checkProviderNetworks},
	{"secrets.dir", "directory below which the files stand that a policy names with file:PATH; empty is any file for a policy applied at the host, and none for one over HTTP", func(s *Settings) any { return &s.Secrets.Dir }, checkSecrets},
	{"secrets.env_prefix", "begins the names of the environment's variables that a policy names with ${NAME}; empty is any for a policy applied at the host, and none for one over HTTP", func(s *Settings) any { return &s.Secrets.EnvPrefix }, nil},
	{"log.level", "debug, info, warn or error", func(s *Settings) any { return &s.LogLevel }, checkLevel},
}

func defaultSettings() Settings {
	return Settings{
		Brokers:    []string{"127.0.0.1:9092"},
		Prefix:     topics.DefaultPrefix,
		Partitions: 32,
		HTTP:       "127.0.0.1:8080",
		Roles:      slices.Clone(allRoles),
		LogLevel:   "info",
		Grace:      25 * time.Second,

		DegradedBytes: ingest.DefaultDegradedBytes,
	}
}

func (s setting) flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(s.key) }
func (s setting) env() string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// isSetting reports whether a flag is a setting's. A command may have one of its own by its name.
func isSetting(f *flag.Flag) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return f.Name == s.flag() && strings.HasSuffix(f.Usage, s.env()+")") })
}

func assign(dst any, text string) error {
	switch p := dst.(type) {
	case *string:
		*p = text
	case *bool:
		switch text {
		case "true", "false":
			*p = text == "true"
		default:
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is no whole number", text)
		}
		*p = n
	case *time.Duration:
		d, err := schemas.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is no duration, such as 25s", text)
		}
		*p = time.Duration(d)
	case *[]string:
		*p = nil
		for v := range strings.SplitSeq(text, ",") {
			if v = strings.TrimSpace(v); v != "" {
				*p = append(*p, v)
			}
		}
	}
	return nil
}

func show(src any) string {
	switch p := src.(type) {
	case *string:
		return *p
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return strconv.Itoa(*p)
	case *time.Duration:
		return p.String()
	case *[]string:
		return strings.Join(*p, ",")
	}
	return ""
}

var (
	urlPassword = regexp.MustCompile(`(://[^:@/?#]*):.*@`)
	password    = regexp.MustCompile(`(^|[\s,])([^:@/?#\s,]+):[^@/\s,]+@`) // without a scheme, which is a mistake
	urlSecret   = regexp.MustCompile(`(?i)([?&][^=&]*(?:pass|secret|token|key)[^=&]*=)[^&]*`)
)

// masked hides what is secret in a URL: its password, and parameters that are called so. Other text
// stays as it is: settings name the files of secrets, and hold none.
func masked(text string) string {
	text = password.ReplaceAllString(urlPassword.ReplaceAllString(text, "$1:***@"), "$1$2:***@")
	return urlSecret.ReplaceAllString(text, "$1***")
}

// loaded is settings with where each came from.
type loaded struct {
	Settings
	from map[string]string // key → "default", a file's line, an environment variable, a flag
	odd  []string          // variables of the environment that begin with WEIR_ and may be anything
}

// warnOdd names the variables that are no settings.
func (l *loaded) warnOdd(w io.Writer) {
	for _, name := range l.odd {
		fmt.Fprintf(w, "Warning: %s is no setting, and is used only where the policy refers to it as ${%s}\n", name, name)
	}
}

// settingsFlags adds a flag for each setting and returns what loads them after
// the flags were parsed. base has the defaults.
func settingsFlags(fs *flag.FlagSet, base Settings, getenv func(string) string) func() (*loaded, error) {
	file := fs.String("config", "", "settings file (YAML)")
	given := make(map[string]string)
	for _, s := range settings {
		add := fs.Func
		if _, ok := s.value(&base).(*bool); ok {
			add = fs.BoolFunc
		}
		add(s.flag(), fmt.Sprintf("%s (default %q; environment %s)", s.usage, show(s.value(&base)), s.env()), func(v string) error {
			given[s.key] = v
			return nil
		})
	}
	return func() (*loaded, error) {
		l := &loaded{Settings: base, from: make(map[string]string)}
		for _, s := range settings {
			l.from[s.key] = "default"
		}
		var errs []error
		set := func(s setting, v, from string) {
			if err := assign(s.value(&l.Settings), v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", from, s.key, err))
			}
			l.from[s.key] = from
		}
		if *file != "" {
			if err := l.readFile(*file, set); err != nil {
				return nil, err
			}
		}
		for _, s := range settings {
			if v := getenv(s.env()); v != "" {
				set(s, v, s.env())
			}
			if v, ok := given[s.key]; ok {
				set(s, v, "--"+s.flag())
			}
		}
		misspelt, odd := unknownVariables(os.Environ(), l.Secrets.EnvPrefix)
		l.odd = odd
		errs = append(append(errs, misspelt...), l.validate())
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		return l, nil
	}
}

// readFile reads settings from YAML: nested or dotted keys, lists or text with
// commas. Unknown keys are errors that say where they stand.
func (l *loaded) readFile(name string, set func(s setting, v, from string)) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var errs []error
	var walk func(prefix string, n *yaml.Node)
	walk = func(prefix string, n *yaml.Node) {
		at := fmt.Sprintf("%s:%d:%d", name, n.Line, n.Column)
		if i := slices.IndexFunc(settings, func(s setting) bool { return s.key == prefix }); i >= 0 {
			switch n.Kind {
			case yaml.ScalarNode:
				set(settings[i], n.Value, at)
			case yaml.SequenceNode:
				var vs []string
				for _, v := range n.Content {
					vs = append(vs, v.Value)
				}
				set(settings[i], strings.Join(vs, ","), at)
			default:
				errs = append(errs, fmt.Errorf("%s: %s wants a value or a list", at, prefix))
			}
			return
		}
		if n.Kind != yaml.MappingNode {
			errs = append(errs, fmt.Errorf("%s: there is no setting %q; see weir config explain", at, prefix))
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if prefix != "" {
				key = prefix + "." + key
			}
			walk(key, n.Content[i+1])
		}
	}
	if len(doc.Content) > 0 {
		walk("", doc.Content[0])
	}
	return errors.Join(errs...)
}

// deps is what adapters are given of the settings.
func (s *Settings) deps(getenv func(string) string, logger *slog.Logger) (provider.Deps, error) {
	networks, err := outbound.ParseNetworks(s.Providers)
	if err != nil {
		return provider.Deps{}, fmt.Errorf("provider.allow_private: %w", err)
	}
	return provider.Deps{Getenv: getenv, Logger: logger, Secrets: s.Secrets, Private: networks, PublicURL: s.PublicURL}, nil
}
