package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirhq/weir/schemas"
)

// otherVariables are read by weir and are no settings, or by other programs of this project.
var otherVariables = []string{
	"WEIR_DIR", "WEIR_CACHE_DIR", "WEIR_CHILD_ROLE", "WEIR_URL", // of weir and of clients
	"WEIR_CLICKHOUSE_HOST", "WEIR_CLICKHOUSE_PORT", "WEIR_CLICKHOUSE_SECURE", "WEIR_CLICKHOUSE_DATABASE", "WEIR_CLICKHOUSE_USER", "WEIR_CLICKHOUSE_PASSWORD", // of Grafana
}

// serviceLink is what Kubernetes sets in each container for a service whose name begins with weir.
var serviceLink = regexp.MustCompile(`^WEIR(_[A-Z0-9_]+)?_(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|PORT(_\d+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://|PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=)`)

// unknownVariables looks through an environment (NAME=VALUE) for variables that begin with WEIR_ and
// are no settings. misspelt are errors, since they resemble a setting; the others may be secrets to
// which the policy refers, and so may all that begin with secrets, where it is not empty.
func unknownVariables(environ []string, secrets string) (misspelt []error, others []string) {
	known := []string{apiKeyEnv}
	for _, s := range settings {
		known = append(known, s.env())
	}
	for _, text := range environ {
		name, _, _ := strings.Cut(text, "=")
		if !strings.HasPrefix(name, "WEIR_") || slices.Contains(known, name) || slices.Contains(otherVariables, name) ||
			secrets != "" && strings.HasPrefix(name, secrets) || serviceLink.MatchString(text) {
			continue
		}
		if guess := schemas.DidYouMean(name, known); guess != "." {
			misspelt = append(misspelt, fmt.Errorf("there is no setting %s%s Rename it; if the policy refers to it as a secret, rename it there too, or set secrets.env_prefix", name, guess))
		} else {
			others = append(others, name)
		}
	}
	return misspelt, others
}
