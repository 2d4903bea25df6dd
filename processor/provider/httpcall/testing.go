package httpcall

import (
	"crypto/x509"
	"net"
)

// Trust lets c trust the authorities of a test's own server.
func (c *Client) Trust(roots *x509.CertPool) { c.dialer.tls.RootCAs = roots }

// Ask lets c look up names with r, for tests.
func (c *Client) Ask(r *net.Resolver) { c.dialer.net.Resolver = r }
