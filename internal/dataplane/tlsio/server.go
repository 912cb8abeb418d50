package tlsio

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// ServerContext is the TLS of a filter chain. Immutable, safe for concurrent
// use. Source: envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext.
type ServerContext struct {
	*common
	cfg *tls.Config
	// noALPN is cfg for clients that offer no protocol of ours.
	noALPN     *tls.Config
	byName     map[string][]*certificate
	requireSNI bool
	fullScan   bool
}

// NewServer builds a server context (TS-02…TS-10, TS-16). All that is wrong
// with the message is reported at once, each with the path of its field.
func NewServer(m *tlsv3.DownstreamTlsContext, opts Options) (*ServerContext, error) {
	o := opts.withDefaults()
	refused := refuseUnbuilt("", m, []string{
		"common_tls_context", "require_client_certificate", "require_sni", "session_ticket_keys",
		"session_ticket_keys_sds_secret_config", "disable_stateless_session_resumption", "disable_stateful_session_resumption",
		"session_timeout", "full_scan_certs_on_sni_mismatch",
	}, map[string]string{
		"ocsp_staple_policy":    "OCSP stapling is not built: only LENIENT_STAPLING, the default",
		"prefer_client_ciphers": "Go's crypto/tls does not let the client's order of ciphers decide: remove it",
	})
	c, cfg, err := o.readCommon(m.GetCommonTlsContext(), true)
	if err := errors.Join(refused, err); err != nil {
		return nil, err
	}
	if len(c.certs) == 0 {
		return nil, fmt.Errorf("%s: No TLS certificates found for server context: set tls_certificates", commonPath)
	}
	s := &ServerContext{
		common: c, cfg: cfg, byName: indexCertificates(c.certs),
		requireSNI: m.GetRequireSni().GetValue(), fullScan: m.GetFullScanCertsOnSniMismatch().GetValue(),
	}
	switch {
	case m.GetRequireClientCertificate().GetValue() || c.verify.demands():
		cfg.ClientAuth = tls.RequireAnyClientCert
	case c.verify.asks():
		cfg.ClientAuth = tls.RequestClientCert
	}
	cfg.ClientCAs = c.verify.acceptableCAs()
	cfg.VerifyConnection = s.verifyClient
	cfg.GetCertificate = presentChosen
	if err := o.setResumption(m, c, cfg); err != nil {
		return nil, err
	}
	s.noALPN = cfg.Clone()
	s.noALPN.NextProtos = nil
	cfg.GetConfigForClient = s.forClient
	return s, nil
}

// indexCertificates: certificates by the names they are for, wildcards as ".example.com".
func indexCertificates(certs []*certificate) map[string][]*certificate {
	byName := map[string][]*certificate{}
	for _, c := range certs {
		for _, n := range c.names {
			if strings.HasPrefix(n, "*.") {
				n = n[1:]
			}
			if !slices.Contains(byName[n], c) {
				byName[n] = append(byName[n], c)
			}
		}
	}
	return byName
}

// NewSession makes the TLS of one connection. Start begins it.
func (c *ServerContext) NewSession(conn ConnInfo) *Session {
	s := &Session{ctx: c, wire: wire{pool: &c.buffers, local: conn.Local, remote: conn.Remote}}
	s.conn = tls.Server(&s.wire, c.cfg)
	return s
}

// forClient runs within the handshake once the ClientHello is there.
func (c *ServerContext) forClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	w, ok := hello.Conn.(*wire)
	if !ok {
		return nil, policyError("not a session's connection")
	}
	cert, named := c.choose(hello)
	if c.requireSNI && !named {
		return nil, policyError("require_sni: the client's server name matches no certificate")
	}
	w.chosen = cert
	if len(c.alpn) > 0 && !slices.ContainsFunc(c.alpn, func(p string) bool { return slices.Contains(hello.SupportedProtos, p) }) {
		return c.noALPN, nil // TS-06: go on without
	}
	return nil, nil
}

// presentChosen gives crypto/tls what forClient chose.
func presentChosen(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	w, ok := hello.Conn.(*wire)
	if !ok || w.chosen == nil {
		return nil, policyError("no certificate was chosen")
	}
	return &w.chosen.tls, nil
}

// choose picks the certificate (TS-07): of those with exactly the client's name, else of those
// with a wildcard for it, else the first of all (or the best of all with
// full_scan_certs_on_sni_mismatch). ECDSA goes before RSA if the client can.
// It reports whether the name matched.
func (c *ServerContext) choose(hello *tls.ClientHelloInfo) (cert *certificate, named bool) {
	if name := strings.ToLower(hello.ServerName); name != "" {
		if best := best(c.byName[name], hello); best != nil {
			return best, true
		}
		if _, parent, ok := strings.Cut(name, "."); ok {
			if best := best(c.byName["."+parent], hello); best != nil {
				return best, true
			}
		}
	}
	if c.fullScan {
		if best := best(c.certs, hello); best != nil {
			return best, false
		}
	}
	return c.certs[0], false
}

// best is the first ECDSA certificate the client supports, else the first
// other one it supports, else nil.
func best(certs []*certificate, hello *tls.ClientHelloInfo) *certificate {
	if len(certs) == 0 {
		return nil
	}
	// The name has been looked at already, by Envoy's rules.
	nameless := *hello
	nameless.ServerName = ""
	var second *certificate
	for _, c := range certs {
		if nameless.SupportsCertificate(&c.tls) != nil {
			continue
		}
		if c.ecdsa {
			return c
		}
		if second == nil {
			second = c
		}
	}
	return second
}

// verifyClient runs in every handshake, resumed ones included, and also if the
// client sent no certificate.
func (c *ServerContext) verifyClient(cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		if c.cfg.ClientAuth == tls.RequireAnyClientCert {
			return &verifyError{ClassVerifyNoCert, "peer did not return a certificate"}
		}
		return nil
	}
	if c.verify.acceptUntrusted {
		return nil // looked at when the handshake is over
	}
	_, err := c.verify.verify(cs.PeerCertificates, expectation{})
	return err
}

func (c *ServerContext) accept(cs *tls.ConnectionState, n Negotiated) (verdict, error) {
	return c.acceptPeer(cs, n, expectation{})
}

// acceptPeer finishes both kinds of handshake.
func (c *common) acceptPeer(cs *tls.ConnectionState, n Negotiated, want expectation) (verdict, error) {
	if err := c.checkSignature(n); err != nil {
		return verdict{}, err
	}
	if len(cs.PeerCertificates) == 0 {
		return verdict{}, nil
	}
	if !c.verify.acceptUntrusted {
		return verdict{validated: c.verify.roots != nil || c.verify.pinned() || len(want.anyOf) > 0}, nil
	}
	checked, err := c.verify.verify(cs.PeerCertificates, want)
	if bad, ok := errors.AsType[*verifyError](err); ok {
		return verdict{tolerated: bad.class}, nil
	}
	return verdict{validated: checked}, nil
}

func (*ServerContext) local(w *wire) *certificate { return w.chosen }

func (*ServerContext) answers() bool { return true }

func (c *ServerContext) asks() bool { return c.cfg.ClientAuth != tls.NoClientCert }
