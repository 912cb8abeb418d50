//go:build !unix

package grpcconn

import "net"

// ofSystem is a socket that can be written without waiting: there is none.
func ofSystem(net.Conn) socket { return nil }
