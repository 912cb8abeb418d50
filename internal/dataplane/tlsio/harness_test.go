package tlsio

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// issuer makes certificates.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var serials atomic.Int64

func newKey(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	var (
		key crypto.Signer
		err error
	)
	switch kind {
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1000 + serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(49 * time.Hour),
	}
}

// sign makes a certificate for key from a template; a nil parent signs itself.
func sign(t testing.TB, tmpl *x509.Certificate, parent *issuer, key crypto.Signer) *x509.Certificate {
	t.Helper()
	by := &issuer{cert: tmpl, key: key}
	if parent != nil {
		by = parent
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newCA(t testing.TB, name string, parent *issuer) *issuer {
	t.Helper()
	key := newKey(t, "ecdsa")
	tmpl := template(name)
	tmpl.IsCA, tmpl.BasicConstraintsValid = true, true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	return &issuer{sign(t, tmpl, parent, key), key}
}

func (i *issuer) pem() []byte { return certPEM(i.cert) }

func certPEM(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return out
}

// pair is a certificate with its key, and the certificates between it and the
// root.
type pair struct {
	cert    *x509.Certificate
	between []*x509.Certificate
	key     crypto.Signer
}

type leafOption func(*x509.Certificate)

func dns(names ...string) leafOption { return func(c *x509.Certificate) { c.DNSNames = names } }

func expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
}

func (i *issuer) leaf(t testing.TB, kind, name string, opts ...leafOption) pair {
	t.Helper()
	tmpl := template(name)
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, o := range opts {
		o(tmpl)
	}
	key := newKey(t, kind)
	return pair{cert: sign(t, tmpl, i, key), key: key}
}

func (p pair) keyPEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func (p pair) proto(t testing.TB) *tlsv3.TlsCertificate {
	t.Helper()
	return &tlsv3.TlsCertificate{
		CertificateChain: inlineBytes(certPEM(append([]*x509.Certificate{p.cert}, p.between...)...)),
		PrivateKey:       inlineBytes(p.keyPEM(t)),
	}
}

func inlineBytes(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}

// downstream is a server's message with the given certificates.
func downstream(t testing.TB, certs ...pair) *tlsv3.DownstreamTlsContext {
	t.Helper()
	m := &tlsv3.DownstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{}}
	for _, c := range certs {
		m.CommonTlsContext.TlsCertificates = append(m.CommonTlsContext.TlsCertificates, c.proto(t))
	}
	return m
}

// upstream is a client's message; TLS 1.3 is allowed unless said otherwise.
func upstream(t testing.TB, certs ...pair) *tlsv3.UpstreamTlsContext {
	t.Helper()
	m := &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsParams: &tlsv3.TlsParameters{TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3},
	}}
	for _, c := range certs {
		m.CommonTlsContext.TlsCertificates = append(m.CommonTlsContext.TlsCertificates, c.proto(t))
	}
	return m
}

func validate(c *tlsv3.CommonTlsContext, v *tlsv3.CertificateValidationContext) {
	c.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: v}
}

func trusting(ca ...*issuer) *tlsv3.CertificateValidationContext {
	var data []byte
	for _, c := range ca {
		data = append(data, c.pem()...)
	}
	return &tlsv3.CertificateValidationContext{TrustedCa: inlineBytes(data)}
}

func mustServer(t testing.TB, m *tlsv3.DownstreamTlsContext) *ServerContext {
	t.Helper()
	c, err := NewServer(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustClient(t testing.TB, m *tlsv3.UpstreamTlsContext) *ClientContext {
	t.Helper()
	c, err := NewClient(m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// worker is the one goroutine that all sessions of a test belong to: the test's.
type worker struct {
	t     testing.TB
	queue chan func()
}

func newWorker(t testing.TB) *worker {
	return &worker{t, make(chan func(), 1024)}
}

func (w *worker) post(f func()) bool {
	w.queue <- f
	return true
}

func (w *worker) turn() {
	w.t.Helper()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	select {
	case f := <-w.queue:
		f()
	case <-timeout.C:
		w.t.Fatal("nothing happens any more")
	}
}

// end is a session in a test, with what came of it.
type end struct {
	*Session
	done bool
	err  error
	got  []byte
	over error // how reading ended
}

func (w *worker) start(s *Session) *end {
	e := &end{Session: s}
	s.Start(context.Background(), w.post, func() {}, func(err error) { e.done, e.err = true, err })
	return e
}

// link carries what one end puts out to the other, in pieces of at most size
// bytes.
type link struct {
	w    *worker
	a, b *end
	size int
}

// connect starts both ends and runs until both handshakes are over.
func connect(w *worker, client, server *Session) *link {
	w.t.Helper()
	l := &link{w: w, a: w.start(client), b: w.start(server), size: 1 << 20}
	l.handshake()
	return l
}

func (l *link) handshake() {
	l.w.t.Helper()
	for {
		l.move()
		if l.a.done && l.b.done {
			l.move()
			return
		}
		l.w.turn()
		// A failed end closes its transport once its alert is out.
		for _, p := range [][2]*end{{l.a, l.b}, {l.b, l.a}} {
			if p[0].done && p[0].err != nil {
				l.carry(p[0], p[1])
				p[1].FeedEOF()
			}
		}
	}
}

// move carries everything there is, both ways, and reads it, until nothing moves.
func (l *link) move() {
	for l.carry(l.a, l.b) || l.carry(l.b, l.a) {
	}
}

func (l *link) carry(from, to *end) bool {
	moved := false
	for out := from.Output(); len(out) > 0; out = from.Output() {
		n := min(len(out), l.size)
		to.Borrow(out[:n])
		to.drain()
		to.Settle()
		from.Consumed(n)
		moved = true
	}
	to.drain()
	return moved
}

func (e *end) drain() {
	var buf [17 << 10]byte
	for e.over == nil {
		n, err := e.Read(buf[:])
		e.got = append(e.got, buf[:n]...)
		if errors.Is(err, ErrAgain) {
			return
		}
		e.over = err
	}
}

// stdClient runs crypto/tls as an ordinary client against a session over a
// pipe and returns what the client's handshake gave.
func stdClient(t testing.TB, server *Session, cfg *tls.Config) (tls.ConnectionState, *end, error) {
	t.Helper()
	mine, theirs := net.Pipe()
	defer mine.Close()
	defer theirs.Close()
	w := newWorker(t)
	e := w.start(server)
	flush := func() bool {
		for out := e.Output(); len(out) > 0; out = e.Output() {
			n, err := mine.Write(out)
			if err != nil {
				return false
			}
			e.Consumed(n)
		}
		return true
	}
	read := make(chan []byte)
	go func() {
		defer close(read)
		for {
			b := make([]byte, 4096)
			n, err := mine.Read(b)
			if n > 0 {
				read <- b[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	type result struct {
		cs  tls.ConnectionState
		err error
	}
	client := make(chan result, 1)
	go func() {
		c := tls.Client(theirs, cfg)
		err := c.Handshake()
		if err == nil {
			// TLS 1.3: what the server thinks of us comes later.
			if _, err = c.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
				err = nil
			}
		}
		client <- result{c.ConnectionState(), err}
		_ = theirs.Close()
	}()
	for !e.done {
		select {
		case f := <-w.queue:
			f()
		case b, ok := <-read:
			if !ok {
				read = nil
				e.FeedEOF()
				continue
			}
			e.Feed(b)
		}
		flush()
	}
	e.CloseNotify()
	flush()
	_ = mine.Close()
	for range orNever(read) {
	}
	r := <-client
	return r.cs, e, r.err
}

func orNever(c chan []byte) chan []byte {
	if c == nil {
		c = make(chan []byte)
		close(c)
	}
	return c
}
