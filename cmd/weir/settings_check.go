package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirhq/weir/processor/outbound"
	"github.com/weirhq/weir/processor/sink/warehouse"
	"github.com/weirhq/weir/schemas/clickhouse"
	"github.com/weirhq/weir/topics"
)

var ordinal = regexp.MustCompile(`-(\d+)$`)

// validate completes settings that depend on others, and checks each.
func (l *loaded) validate() error {
	if l.Slot == "" {
		l.Slot, l.from["slot"] = "0", "default"
		if host, err := os.Hostname(); err == nil {
			if m := ordinal.FindStringSubmatch(host); m != nil {
				l.Slot, l.from["slot"] = m[1], "the host's name"
			}
		}
	}
	l.PublicURL = strings.TrimRight(l.PublicURL, "/")
	return l.check(func(s setting) string { return l.from[s.key] + ": " + s.key })
}

// check reports every setting whose value cannot be meant. Errors begin with what named returns.
func (s *Settings) check(named func(setting) string) error {
	var errs []error
	for _, one := range settings {
		if one.check == nil {
			continue
		}
		if err := one.check(s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", named(one), err))
		}
	}
	return errors.Join(errs...)
}

// between is a number or a duration within bounds.
func between[T cmp.Ordered](v, least, most T, example string) error {
	if v < least || v > most {
		return fmt.Errorf("%v is out of range: %v to %v, such as %s", v, least, most, example)
	}
	return nil
}

// optional is a check of a text that may be empty.
func optional(text string, check func(string) error) error {
	if text == "" {
		return nil
	}
	return check(text)
}

// hostPort reports whether a text is a host, which may be empty, and a port.
func hostPort(text string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || port == "" || strings.ContainsAny(host, "/@ ") {
		return host, false
	}
	_, err = net.LookupPort("tcp", port)
	return host, err == nil
}

// listens is an address to listen on.
func listens(text string) error {
	if _, ok := hostPort(text); !ok {
		return fmt.Errorf("%q is no address to listen on: write a host and a port, such as 127.0.0.1:8080, or :8080 for every interface", masked(text))
	}
	return nil
}

// checkBrokers: the port may be left out, and is 9092 then.
func checkBrokers(s *Settings) error {
	if len(s.Brokers) == 0 {
		return errors.New("is empty: name at least one broker, such as 127.0.0.1:9092")
	}
	for _, text := range s.Brokers {
		full := text
		if !strings.Contains(text, ":") || strings.HasSuffix(text, "]") {
			full += ":9092"
		}
		if host, ok := hostPort(full); !ok || host == "" {
			return fmt.Errorf("%q is no address of a broker: write a host and a port, such as 127.0.0.1:9092", masked(text))
		}
	}
	return nil
}

func checkPrefix(s *Settings) error {
	return topics.Config{Prefix: s.Prefix, Partitions: 1, Replication: 1}.Validate()
}

func checkPartitions(s *Settings) error  { return between(s.Partitions, 1, 10_000, "32") }
func checkReplication(s *Settings) error { return between(s.Replication, 0, 100, "3") }

func checkClickHouse(s *Settings) error {
	return optional(s.ClickHouse, func(text string) error {
		o, err := warehouse.Parse(text)
		if err != nil {
			return err
		}
		if _, ok := hostPort(o.Addr[0]); !ok {
			return fmt.Errorf("%q is no host and port, such as those of http://127.0.0.1:8123", o.Addr[0])
		}
		return nil
	})
}

func checkCluster(s *Settings) error { return optional(s.Cluster, clickhouse.ValidCluster) }
func checkListen(s *Settings) error  { return listens(s.HTTP) }
func checkMetrics(s *Settings) error { return optional(s.Metrics, listens) }

func checkPublicURL(s *Settings) error {
	return optional(s.PublicURL, func(text string) error {
		u, err := url.Parse(text)
		if err == nil && u.Port() != "" {
			_, err = net.LookupPort("tcp", u.Port())
		}
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("%q: http or https, a host and perhaps a path, such as https://weir.example.com", masked(text))
		}
		return nil
	})
}

// trustedProxies reads networks and single addresses.
func (s *Settings) trustedProxies() (out []netip.Prefix, err error) {
	for _, text := range s.Proxies {
		p, err := netip.ParsePrefix(text)
		if a, notOne := netip.ParseAddr(text); notOne == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p != p.Masked() || p.Addr().Is4In6() || p.Addr().Zone() != "" {
			return nil, fmt.Errorf("%q is no network: write its first address and how many bits it has, such as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/48", text)
		}
		out = append(out, p)
	}
	return out, nil
}

func checkProxies(s *Settings) error {
	_, err := s.trustedProxies()
	return err
}

func checkDegradedBytes(s *Settings) error { return between(s.DegradedBytes, 1<<20, 1<<40, "67108864") }

func checkRoles(s *Settings) error {
	for _, r := range s.Roles {
		if !slices.Contains(allRoles, r) {
			return fmt.Errorf("there is no role %q: %s", r, strings.Join(allRoles, ", "))
		}
	}
	if slices.Contains(s.Roles, "console") && !slices.Contains(s.Roles, "ingest") {
		return errors.New("console needs ingest: its pages are of the HTTP API's address")
	}
	return nil
}

func checkSlot(s *Settings) error {
	if _, err := strconv.ParseUint(s.Slot, 10, 31); err != nil {
		return fmt.Errorf("%q is no number from 0, such as 3", s.Slot)
	}
	return nil
}

func checkGrace(s *Settings) error { return between(s.Grace, time.Second, 10*time.Minute, "25s") }

func checkCallbackNetworks(s *Settings) error {
	_, err := outbound.ParseNetworks(s.Private)
	return err
}

func checkProviderNetworks(s *Settings) error {
	_, err := outbound.ParseNetworks(s.Providers)
	return err
}

func checkSecrets(s *Settings) error { return s.Secrets.Validate() }

func checkLevel(s *Settings) error {
	if err := new(logLevel).UnmarshalText([]byte(s.LogLevel)); err != nil {
		return fmt.Errorf("%q: debug, info, warn or error", s.LogLevel)
	}
	return nil
}
