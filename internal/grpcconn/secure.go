package grpcconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
)

// Protocol is what TLS calls HTTP/2.
const Protocol = "h2"

// Secure begins TLS as a client, for HTTP/2, over a connection, which it closes
// if that fails. A Conn over what it returns sends without waiting, as one
// without TLS does, which it cannot over TLS of others.
func Secure(ctx context.Context, nc net.Conn, config *tls.Config) (net.Conn, error) {
	config = config.Clone()
	config.DynamicRecordSizingDisabled = true // few, large writes
	under, onto := beneath(nc)
	conn := tls.Client(under, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return onto(conn), nil
}

// stateful is TLS, whatever is around it.
type stateful interface{ ConnectionState() tls.ConnectionState }

// Agreed is an error unless TLS, where it is spoken, has agreed on HTTP/2.
func Agreed(nc net.Conn) error {
	if t, ok := nc.(stateful); ok && t.ConnectionState().NegotiatedProtocol != Protocol {
		return errors.New("the server does not offer HTTP/2 (" + Protocol + ") within TLS")
	}
	return nil
}

// unprotected is what credentials are told of a connection without TLS.
type unprotected struct{ credentials.CommonAuthInfo }

// AuthType implements credentials.AuthInfo.
func (unprotected) AuthType() string { return "insecure" }

func securityOf(nc net.Conn) credentials.AuthInfo {
	if w, ok := nc.(Watched); ok {
		nc = w.Carrier()
	}
	if t, ok := nc.(stateful); ok {
		return credentials.TLSInfo{
			State:          t.ConnectionState(),
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
	}
	return unprotected{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
}
