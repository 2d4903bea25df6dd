package http

import (
	"crypto/x509"
	"net"

	"github.com/weirhq/weir/processor/provider"
)

// Trust lets p trust the authorities of a test's own server.
func Trust(p provider.Provider, roots *x509.CertPool) { p.(*client).http.Trust(roots) }

// Ask lets p look up names with r.
func Ask(p provider.Provider, r *net.Resolver) { p.(*client).http.Ask(r) }
