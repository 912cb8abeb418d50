//go:build !unix

package grpcconn

import (
	"crypto/tls"
	"net"
)

// beneath is what TLS is to be spoken over, and what becomes of it after the
// handshake.
func beneath(nc net.Conn) (under net.Conn, onto func(*tls.Conn) net.Conn) {
	return nc, func(t *tls.Conn) net.Conn { return t }
}
