//go:build !(linux && amd64)

package replicatest

import "github.com/weirhq/weir/deploy/embedded/engine"

func giveAddress(string, int) error { return engine.ErrUnsupported }
