// Package presets holds policies that ship with Weir, as the YAML that weir
// apply reads. It does not parse them.
package presets

import _ "embed"

// Dev is the policy of weir dev: limits for verification codes and notices, and
// one simulated provider for every channel.
//
//go:embed dev.yaml
var Dev []byte
