//go:build !unix

package grpcconn

import "net"

// newSocket makes the best of a connection.
func newSocket(c net.Conn) socket { return newPlain(c) }
