package tlsio

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"strings"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// Info is everything about an established session that filters, route matches
// and access logs may want (AL-10, AL-11, HC-36). Immutable. The texts have Envoy's form.
type Info struct {
	Negotiated
	// Presented: the peer presented a certificate; Validated: it was verified
	// and found good, not only let pass (RT-07).
	Presented, Validated bool
	// Peer and Local are nil if there is no such certificate.
	Peer, Local *CertificateInfo

	chain []*x509.Certificate
}

// CertificateInfo holds the facts of one certificate as text. Immutable.
type CertificateInfo struct {
	// Subject and Issuer have the form of RFC 2253.
	Subject, Issuer string
	// Serial and the fingerprints are lower-case hexadecimal.
	Serial            string
	FingerprintSHA256 string
	FingerprintSHA1   string
	NotBefore         time.Time
	NotAfter          time.Time
	DNSSANs           []string
	URISANs           []string
	IPSANs            []string
	EmailSANs         []string
	OtherNameSANs     []string

	cert *x509.Certificate
}

// Certificate is the certificate itself, to be read only.
func (c *CertificateInfo) Certificate() *x509.Certificate { return c.cert }

// URLEncodedPEM is the certificate as PEM with the characters that Envoy
// escapes in x-forwarded-client-cert.
func (c *CertificateInfo) URLEncodedPEM() string { return urlEncodedPEM(c.cert) }

// URLEncodedPEMChain is what the peer presented, leaf first, in the form of
// URLEncodedPEM; empty without a certificate.
func (i *Info) URLEncodedPEMChain() string {
	var b strings.Builder
	for _, c := range i.chain {
		b.WriteString(urlEncodedPEM(c))
	}
	return b.String()
}

// ChainIdentities are the fingerprints and serials of what the peer presented,
// leaf first, as CertificateInfo has them.
func (i *Info) ChainIdentities() (sha256s, sha1s, serials []string) {
	for n, c := range i.chain {
		if n == 0 && i.Peer != nil {
			sha256s, sha1s = append(sha256s, i.Peer.FingerprintSHA256), append(sha1s, i.Peer.FingerprintSHA1)
			serials = append(serials, i.Peer.Serial)
			continue
		}
		sum256, sum1 := sha256.Sum256(c.Raw), sha1.Sum(c.Raw)
		sha256s, sha1s = append(sha256s, hex.EncodeToString(sum256[:])), append(sha1s, hex.EncodeToString(sum1[:]))
		serials = append(serials, serialText(c.SerialNumber))
	}
	return sha256s, sha1s, serials
}

// Info gives the facts of the session, nil before the handshake is over. After
// one that failed it holds what was known by then, such as the certificate
// that was refused, as Envoy's access logs do. It is made at the first call
// and kept.
func (s *Session) Info() *Info {
	if !s.shaken {
		return nil
	}
	if s.info != nil {
		return s.info
	}
	chain := s.conn.ConnectionState().PeerCertificates
	s.info = &Info{
		Negotiated: s.result.negotiated, Presented: len(chain) > 0, Validated: s.result.verdict.validated, chain: chain,
	}
	if len(chain) > 0 {
		s.info.Peer = describe(chain[0])
	}
	if local := s.ctx.local(&s.wire); local != nil {
		s.info.Local = local.facts
	}
	return s.info
}

func describe(c *x509.Certificate) *CertificateInfo {
	sum256, sum1 := sha256.Sum256(c.Raw), sha1.Sum(c.Raw)
	out := &CertificateInfo{
		Subject: rfc2253(c.RawSubject), Issuer: rfc2253(c.RawIssuer), Serial: serialText(c.SerialNumber),
		FingerprintSHA256: hex.EncodeToString(sum256[:]), FingerprintSHA1: hex.EncodeToString(sum1[:]),
		NotBefore: c.NotBefore, NotAfter: c.NotAfter, cert: c,
	}
	for _, s := range sansOf(c) {
		switch s.kind {
		case tlsv3.SubjectAltNameMatcher_DNS:
			out.DNSSANs = append(out.DNSSANs, s.text)
		case tlsv3.SubjectAltNameMatcher_URI:
			out.URISANs = append(out.URISANs, s.text)
		case tlsv3.SubjectAltNameMatcher_IP_ADDRESS:
			out.IPSANs = append(out.IPSANs, s.text)
		case tlsv3.SubjectAltNameMatcher_EMAIL:
			out.EmailSANs = append(out.EmailSANs, s.text)
		case tlsv3.SubjectAltNameMatcher_OTHER_NAME:
			out.OtherNameSANs = append(out.OtherNameSANs, s.text)
		}
	}
	return out
}

// serialText is the number in hexadecimal, two digits a byte.
func serialText(n *big.Int) string {
	if n.Sign() == 0 {
		return "00"
	}
	sign := ""
	if n.Sign() < 0 {
		sign = "-"
	}
	return sign + hex.EncodeToString(n.Bytes())
}

func urlEncodedPEM(c *x509.Certificate) string {
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	return strings.NewReplacer("\n", "%0A", " ", "%20", "+", "%2B", "/", "%2F", "=", "%3D").Replace(string(text))
}
