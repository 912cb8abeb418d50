package listener

import (
	"context"
	"errors"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
)

// transport is a TLS session as a loop's transport socket.
type transport struct {
	*tlsio.Session
	ctx    context.Context //nolint:containedctx // ends a running handshake
	server bool
}

// NewTransport makes a TLS session a loop's transport socket.
func NewTransport(ctx context.Context, s *tlsio.Session) loop.Transport {
	return &transport{Session: s, ctx: ctx}
}

// newServerTransport is NewTransport for accepted connections.
func newServerTransport(ctx context.Context, s *tlsio.Session) loop.Transport {
	return &transport{Session: s, ctx: ctx, server: true}
}

// Start implements loop.Transport.
func (t *transport) Start(post func(func()) bool, onOutput func(), done func(error)) {
	t.Session.Start(t.ctx, post, func() {
		if t.server && t.Session.Open() && t.Session.Negotiated().Version == "TLSv1.3" {
			return // session tickets: they go with the first answer
		}
		onOutput()
	}, done)
}

// noSecret is what connections fail of whose secrets have not come.
const noSecret = "TLS error: Secret is not supplied by SDS"

var errNoSecret = errors.New(noSecret)

// notReady is the transport socket of a connection whose secrets have not come.
type notReady struct{}

// NotReady makes a transport socket that fails for want of its secrets.
func NotReady() loop.Transport { return notReady{} }

// Start implements loop.Transport.
func (notReady) Start(post func(func()) bool, _ func(), done func(error)) {
	post(func() { done(errNoSecret) })
}

func (notReady) Borrow([]byte)            {}
func (notReady) Settle()                  {}
func (notReady) FeedEOF()                 {}
func (notReady) Buffered() int            { return 0 }
func (notReady) Read([]byte) (int, error) { return 0, loop.ErrAgain }
func (notReady) Write([]byte) error       { return errNoSecret }
func (notReady) Output() []byte           { return nil }
func (notReady) Consumed(int)             {}
func (notReady) Protocol() string         { return "" }
func (notReady) CloseNotify()             {}
func (notReady) Abort(error)              {}

// Read implements loop.Transport.
func (t *transport) Read(dst []byte) (int, error) {
	n, err := t.Session.Read(dst)
	if errors.Is(err, tlsio.ErrAgain) {
		err = loop.ErrAgain
	}
	return n, err //nolint:wrapcheck // the loop hands it on
}

// Protocol implements loop.Transport.
func (t *transport) Protocol() string { return t.Negotiated().ALPN }

// InfoOf is what is known of a TLS session in the form that filters see; nil
// for nil.
func InfoOf(i *tlsio.Info) *filter.TLSInfo {
	if i == nil {
		return nil
	}
	t := &filter.TLSInfo{
		Version: i.Version, Cipher: i.Cipher, ALPN: i.ALPN, SNI: i.SNI,
		PeerPresented: i.Presented, PeerValidated: i.Validated, Resumed: i.Resumed,
		Group: i.Curve, Peer: certOf(i.Peer), Local: certOf(i.Local),
	}
	if t.Peer != nil {
		t.Peer.PEM, t.Peer.Chain = i.Peer.URLEncodedPEM(), i.URLEncodedPEMChain()
		t.Peer.ChainFingerprints256, t.Peer.ChainFingerprints1, t.Peer.ChainSerials = i.ChainIdentities()
	}
	return t
}

func certOf(c *tlsio.CertificateInfo) *filter.CertInfo {
	if c == nil {
		return nil
	}
	return &filter.CertInfo{
		URISANs: c.URISANs, DNSSANs: c.DNSSANs, IPSANs: c.IPSANs, EmailSANs: c.EmailSANs, OtherNameSANs: c.OtherNameSANs,
		Subject: c.Subject, Issuer: c.Issuer, Serial: c.Serial,
		Fingerprint256: c.FingerprintSHA256, Fingerprint1: c.FingerprintSHA1,
		NotBefore: c.NotBefore, NotAfter: c.NotAfter,
	}
}

// countHandshake counts a handshake that succeeded (TS-20).
func (l *Listener) countHandshake(sh *stats.Shard, s *tlsio.Session) { countHandshake(sh, l.Scope, s) }

func (l *Listener) countFailure(sh *stats.Shard, s *tlsio.Session) { countFailure(sh, l.Scope, s) }

// CountUpstream counts how the handshake of a connection to a host ended, below
// the scope of its cluster. t is what NewTransport made. It runs on the worker
// whose shard sh is.
func CountUpstream(sh *stats.Shard, cluster *stats.Scope, t loop.Transport, done bool) {
	s, ok := t.(*transport)
	switch {
	case !ok:
	case done:
		countHandshake(sh, cluster, s.Session)
	default:
		countFailure(sh, cluster, s.Session)
	}
}

func countHandshake(sh *stats.Shard, scope *stats.Scope, s *tlsio.Session) {
	n := s.Negotiated()
	sh.Inc(scope.Counter("ssl.handshake"))
	if n.Resumed {
		sh.Inc(scope.Counter("ssl.session_reused"))
	}
	if !n.PeerCertificate {
		sh.Inc(scope.Counter("ssl.no_certificate"))
	}
	countClass(sh, scope, s.Tolerated())
	for _, name := range [...][2]string{{"versions", n.Version}, {"ciphers", n.Cipher}, {"curves", n.Curve}, {"sigalgs", n.SigAlg}} {
		if name[1] != "" {
			sh.Inc(scope.Counter("ssl." + name[0] + "." + name[1]))
		}
	}
}

func countFailure(sh *stats.Shard, scope *stats.Scope, s *tlsio.Session) {
	if f := s.Failure(); f != nil {
		countClass(sh, scope, f.Class)
	}
}

func countClass(sh *stats.Shard, scope *stats.Scope, class tlsio.FailureClass) {
	switch class {
	case tlsio.ClassConnectionError:
		sh.Inc(scope.Counter("ssl.connection_error"))
	case tlsio.ClassVerifyNoCert:
		sh.Inc(scope.Counter("ssl.fail_verify_no_cert"))
	case tlsio.ClassVerifyError:
		sh.Inc(scope.Counter("ssl.fail_verify_error"))
	case tlsio.ClassVerifySAN:
		sh.Inc(scope.Counter("ssl.fail_verify_san"))
	case tlsio.ClassVerifyCertificate:
		sh.Inc(scope.Counter("ssl.fail_verify_cert_hash"))
	}
}
