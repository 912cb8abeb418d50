package tlsio

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// ClientContext is the TLS of a cluster's connections. Immutable but for its
// store of sessions to resume, safe for concurrent use. Source:
// envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext.
type ClientContext struct {
	*common
	cfg         *tls.Config
	sni         string
	autoHostSNI bool
	autoSNISAN  bool

	mu sync.Mutex
	// peers are the configurations of connections with the same options,
	// guarded by mu: making one costs more than the look-up.
	peers map[peerKey]*peerConfig
}

// maxPeers bounds the configurations kept; with more kinds of connections than
// that all are forgotten and made anew as needed.
const maxPeers = 1024

type peerKey struct{ sni, verify, alpn string }

// peerConfig is the configuration of connections that expect the same of
// their peers.
type peerConfig struct {
	*ClientContext
	cfg  *tls.Config
	want expectation
}

// ClientSessionOptions is what one upstream connection adds to its context.
// The zero value is good.
type ClientSessionOptions struct {
	ConnInfo
	// SNI is sent instead of the context's (TS-13, auto_sni); empty: none is
	// given.
	SNI string
	// Host is the upstream host's name for auto_host_sni (TS-11), empty if
	// unknown.
	Host string
	// VerifySAN: the peer's certificate must have at least one of these names as a
	// DNS, URI or IP SAN, beside what is configured (TS-13,
	// auto_san_validation).
	VerifySAN []string
	// ALPN is offered instead of everything else.
	ALPN []string
	// ALPNFallback is offered if neither ALPN nor the context has protocols
	// (TS-12).
	ALPNFallback []string
}

// defaultSessionKeys is the default of max_session_keys (TS-16).
const defaultSessionKeys = 1

// NewClient builds a client context (TS-03, TS-04, TS-09…TS-12, TS-16). All
// that is wrong with the message is reported at once, each with the path of
// its field.
func NewClient(m *tlsv3.UpstreamTlsContext, opts Options) (*ClientContext, error) {
	o := opts.withDefaults()
	refused := refuseUnbuilt("", m, []string{
		"common_tls_context", "sni", "auto_host_sni", "auto_sni_san_validation", "max_session_keys", "enforce_rsa_key_usage",
	}, map[string]string{"allow_renegotiation": "renegotiation is not built: it is insecure, remove it"})
	var sniErr, sanErr error
	if strings.ContainsRune(m.GetSni(), 0) {
		sniErr = errors.New("sni: SNI names containing NULL-byte are not allowed")
	} else if len(m.GetSni()) > 255 {
		sniErr = fmt.Errorf("sni: at most 255 bytes, this has %d", len(m.GetSni()))
	}
	c, cfg, err := o.readCommon(m.GetCommonTlsContext(), false)
	if err == nil && m.GetAutoSniSanValidation() && c.verify.roots == nil {
		sanErr = errors.New("auto_sni_san_validation: 'auto_sni_san_validation' was configured without a validation context that has a trusted_ca")
	}
	if err == nil && len(c.certs) > 1 {
		err = fmt.Errorf("%s.tls_certificates: Multiple TLS certificates are not supported for client contexts", commonPath)
	}
	if err := errors.Join(refused, sniErr, sanErr, err); err != nil {
		return nil, err
	}
	if m.GetEnforceRsaKeyUsage() != nil { //nolint:staticcheck // that is what is said about it
		o.Logger.Warn("has no effect: Envoy ignores this deprecated field", "field", "enforce_rsa_key_usage")
	}
	// The peer is verified by Envoy's rules, in VerifyConnection.
	cfg.InsecureSkipVerify = true
	if len(c.certs) == 1 {
		cert := &c.certs[0].tls
		// Whatever authorities the server names, as in Envoy.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	keys := defaultSessionKeys
	if m.GetMaxSessionKeys() != nil {
		keys = int(m.GetMaxSessionKeys().GetValue())
	}
	if keys > 0 {
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(keys)
	} else {
		cfg.SessionTicketsDisabled = true
	}
	return &ClientContext{
		common: c, cfg: cfg, sni: m.GetSni(), autoHostSNI: m.GetAutoHostSni(), autoSNISAN: m.GetAutoSniSanValidation(),
		peers: map[peerKey]*peerConfig{},
	}, nil
}

// SNI is the server name that a session with these options sends, empty for
// none: the given one, else the host's with auto_host_sni, else the
// configured one; never an IP address.
func (c *ClientContext) SNI(o ClientSessionOptions) string {
	sni := c.sni
	switch {
	case o.SNI != "":
		sni = o.SNI
	case c.autoHostSNI && o.Host != "":
		sni = o.Host
	}
	if _, err := netip.ParseAddr(strings.Trim(sni, "[]")); err == nil {
		return ""
	}
	return sni
}

// NewSession makes the TLS of one upstream connection. Start begins it.
func (c *ClientContext) NewSession(o ClientSessionOptions) *Session {
	p := c.peer(o)
	s := &Session{ctx: p, wire: wire{pool: &c.buffers, local: o.Local, remote: o.Remote}}
	s.conn = tls.Client(&s.wire, p.cfg)
	return s
}

func (c *ClientContext) peer(o ClientSessionOptions) *peerConfig {
	alpn := c.alpn
	switch {
	case len(o.ALPN) > 0:
		alpn = o.ALPN
	case len(alpn) == 0:
		alpn = o.ALPNFallback
	}
	sni := c.SNI(o)
	key := peerKey{sni, strings.Join(o.VerifySAN, "\x00"), strings.Join(alpn, "\x00")}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.peers[key]; p != nil {
		return p
	}
	p := &peerConfig{ClientContext: c, cfg: c.cfg.Clone(), want: expectation{anyOf: o.VerifySAN}}
	if c.autoSNISAN {
		p.want.sni = sni
	}
	p.cfg.ServerName, p.cfg.NextProtos = sni, alpn
	p.cfg.VerifyConnection = p.verifyServer
	if len(c.peers) >= maxPeers {
		clear(c.peers)
	}
	c.peers[key] = p
	return p
}

// verifyServer runs in every handshake, resumed ones included.
func (p *peerConfig) verifyServer(cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		return &verifyError{ClassVerifyNoCert, "peer did not return a certificate"}
	}
	if p.verify.acceptUntrusted {
		return nil // looked at when the handshake is over
	}
	_, err := p.verify.verify(cs.PeerCertificates, p.want)
	return err
}

func (p *peerConfig) accept(cs *tls.ConnectionState, n Negotiated) (verdict, error) {
	return p.acceptPeer(cs, n, p.want)
}

// local is the configured certificate, whether or not the server asked for it.
func (p *peerConfig) local(*wire) *certificate {
	if len(p.certs) == 0 {
		return nil
	}
	return p.certs[0]
}

// Config is the configuration of a connection with these options for package
// crypto/tls, for connections that are not a worker's. Not to be changed.
func (c *ClientContext) Config(o ClientSessionOptions) *tls.Config { return c.peer(o).cfg }

func (*ClientContext) answers() bool { return false }

func (*ClientContext) asks() bool { return true }
