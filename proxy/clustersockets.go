package proxy

import (
	"context"
	"fmt"
	"net"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/proxyheader"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
)

// clientSocket is a transport socket of a cluster; the zero value is raw bytes.
type clientSocket struct {
	tls    *clientTLS          // nil without TLS
	header *proxyheader.Config // that goes ahead; nil without
}

// clusterTransport builds the transport sockets of a cluster.
func (p *Proxy) clusterTransport(e *clusterEntry) error {
	own, err := p.clientSocket(e, e.TransportSocket())
	if err != nil {
		return fmt.Errorf("transport_socket%w", err)
	}
	all := []clientSocket{own}
	for i, m := range e.TransportSocketMatches() {
		s, err := p.clientSocket(e, m.Socket)
		if err != nil {
			return fmt.Errorf("transport_socket_matches[%d].transport_socket%w", i, err)
		}
		all = append(all, s)
	}
	e.useSockets(all)
	return nil
}

// useSockets makes the cluster's connections have sockets: the first is the
// cluster's own, the others are the matches.
func (e *clusterEntry) useSockets(all []clientSocket) {
	contexts := make([]*clientTLS, len(all))
	headers := make([]*proxyheader.Config, len(all))
	announced := false
	for i, s := range all {
		contexts[i], headers[i] = s.tls, s.header
		if s.tls != nil {
			e.tls = append(e.tls, s.tls)
		}
		announced = announced || s.header != nil
	}
	scope := e.lease.Scope
	if announced {
		e.opt.ProxyHeaders = headers
		e.opt.ProxyHeaderTooLong = scope.Counter("upstream.proxyprotocol.v2_tlvs_exceed_max_length")
	}
	if len(e.tls) == 0 {
		return
	}
	e.sockets = contexts
	e.opt.Transport = e.transport(contexts)
	e.opt.CountTransport = func(s *stats.Shard, t loop.Transport, done bool) { listener.CountUpstream(s, scope, t, done) }
}

// clientSocket reads a transport socket. An error begins with a colon, or with the
// path of the field below it.
func (p *Proxy) clientSocket(e *clusterEntry, t *corev3.TransportSocket) (s clientSocket, err error) {
	if t == nil {
		return s, nil
	}
	m, err := unpack(t.GetTypedConfig())
	if err != nil {
		return s, fmt.Errorf(": %w", err)
	}
	switch m := m.(type) {
	case *rawv3.RawBuffer:
		return s, nil
	case *tlsv3.UpstreamTlsContext:
		if s.tls, err = p.secureClient(e, m); err != nil {
			return s, fmt.Errorf(": %w", err)
		}
		return s, nil
	case *upstreamv3.ProxyProtocolUpstreamTransport:
		if s, err = p.clientSocket(e, m.GetTransportSocket()); err != nil {
			return s, fmt.Errorf(".typed_config.transport_socket%w", err)
		}
		if s.header, err = proxyheader.New(m, s.header, p.formats()); err != nil {
			return s, fmt.Errorf(".typed_config.%w", err)
		}
		return s, nil
	}
	return s, fmt.Errorf(": Didn't find a registered implementation for '%s' with type URL: '%s'", t.GetName(), t.GetTypedConfig().GetTypeUrl())
}

// socketTLS is the TLS of the socket that a match selects, -1 for the cluster's own;
// nil if there is none.
func (e *clusterEntry) socketTLS(match int) *clientTLS {
	if len(e.sockets) == 0 {
		return nil
	}
	return e.sockets[match+1]
}

// announce sends the PROXY header of the socket that a match selects on a connection
// that is for no client's, if there is one.
func (e *clusterEntry) announce(ctx context.Context, h *cluster.Host, raw net.Conn, match int) error {
	if len(e.opt.ProxyHeaders) == 0 || e.opt.ProxyHeaders[match+1] == nil {
		return nil
	}
	until, _ := ctx.Deadline()
	if err := raw.SetWriteDeadline(until); err != nil {
		return err //nolint:wrapcheck // its caller does
	}
	head, _ := e.opt.ProxyHeaders[match+1].Append(nil, nil, &proxyheader.Upstream{
		Local: addressOf(raw.LocalAddr()), Remote: addressOf(raw.RemoteAddr()), HostName: h.Hostname(),
		Metadata: h.Attributes().Metadata, Start: time.Now(),
	})
	if _, err := raw.Write(head); err != nil {
		return err //nolint:wrapcheck // its caller does
	}
	return raw.SetWriteDeadline(time.Time{}) //nolint:wrapcheck // its caller does
}

// addressOf is an end of a connection; not valid if it is none of TCP.
func addressOf(a net.Addr) filter.Address {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return filter.Address{}
	}
	return filter.IPAddress(t.AddrPort())
}

// transport makes transport sockets of the context a host selects: contexts[0]
// is the cluster's own, the others are the matches.
func (e *clusterEntry) transport(contexts []*clientTLS) pool.Transport {
	return func(ctx context.Context, h *cluster.Host, proto pool.Protocol, o pool.TransportOptions) (loop.Transport, func() *filter.TLSInfo) {
		t := contexts[h.Attributes().TransportSocket+1]
		if t == nil {
			return nil, nil
		}
		c := t.Load()
		if c == nil {
			return listener.NotReady(), func() *filter.TLSInfo { return nil }
		}
		so := tlsio.ClientSessionOptions{SNI: o.SNI, Host: h.Hostname()}
		if o.VerifySAN != "" {
			so.VerifySAN = []string{o.VerifySAN}
		}
		switch {
		case o.RawALPN:
		case proto == pool.HTTP2:
			so.ALPNFallback = []string{"h2"}
		case proto == pool.ALPN:
			so.ALPNFallback = []string{"h2", "http/1.1"}
		default:
			so.ALPNFallback = []string{"http/1.1"}
		}
		s := c.NewSession(so)
		return listener.NewTransport(ctx, s), func() *filter.TLSInfo { return listener.InfoOf(s.Info()) }
	}
}
