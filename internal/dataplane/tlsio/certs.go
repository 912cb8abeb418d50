package tlsio

import (
	"crypto/x509"
	"log/slog"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// CertificateStatus is one certificate in use, for the admin interface's
// /certs (TS-26).
type CertificateStatus struct {
	// Path is the file it came from, "<inline>" if it came from none.
	Path string
	// Serial is lower-case hexadecimal.
	Serial string
	SANs   []SubjectAltName
	// DaysLeft are whole days until NotAfter, 0 if that has passed.
	DaysLeft            uint64
	NotBefore, NotAfter time.Time
}

// SubjectAltName is a name in a certificate: Kind is DNS, URI, IP_ADDRESS,
// EMAIL or OTHER_NAME.
type SubjectAltName struct{ Kind, Name string }

// ContextCertificates are the certificates of one context: those it trusts and those it presents.
type ContextCertificates struct {
	CA    []CertificateStatus
	Chain []CertificateStatus
}

// Certificates lists what the context uses, as of now; of each chain the
// leaf. Safe for concurrent use.
func (c *common) Certificates(now time.Time) ContextCertificates {
	var out ContextCertificates
	for _, a := range c.verify.anchors {
		out.CA = append(out.CA, status(c.verify.from, a, now))
	}
	for _, cert := range c.certs {
		out.Chain = append(out.Chain, status(cert.from, cert.leaf, now))
	}
	return out
}

// DaysUntilFirstExpiry is the number of whole days until the first
// certificate of the context expires, 0 if one has; false if it has none.
// Source: the gauge server.days_until_first_cert_expiring (TS-26).
func (c *common) DaysUntilFirstExpiry(now time.Time) (days uint64, ok bool) {
	all := c.Certificates(now)
	for _, s := range append(all.CA, all.Chain...) {
		if !ok || s.DaysLeft < days {
			days, ok = s.DaysLeft, true
		}
	}
	return days, ok
}

func status(from string, c *x509.Certificate, now time.Time) CertificateStatus {
	out := CertificateStatus{Path: from, Serial: serialText(c.SerialNumber), NotBefore: c.NotBefore, NotAfter: c.NotAfter}
	if left := c.NotAfter.Sub(now); left > 0 {
		out.DaysLeft = uint64(left / (24 * time.Hour))
	}
	for _, s := range sansOf(c) {
		out.SANs = append(out.SANs, SubjectAltName{tlsv3.SubjectAltNameMatcher_SanType_name[int32(s.kind)], s.text})
	}
	return out
}

// Contexts and sessions hold keys: what prints or logs one gets its kind only.

// String names the kind.
func (c *ServerContext) String() string { return "server TLS context" }

// GoString names the kind.
func (c *ServerContext) GoString() string { return c.String() }

// LogValue names the kind.
func (c *ServerContext) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String names the kind.
func (c *ClientContext) String() string { return "client TLS context" }

// GoString names the kind.
func (c *ClientContext) GoString() string { return c.String() }

// LogValue names the kind.
func (c *ClientContext) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String names the kind.
func (s *Session) String() string { return "TLS session" }

// GoString names the kind.
func (s *Session) GoString() string { return s.String() }

// LogValue names the kind.
func (s *Session) LogValue() slog.Value { return slog.StringValue(s.String()) }
