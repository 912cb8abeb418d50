package tlsio

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// verifier checks what peers present (TS-08…TS-10). Immutable.
type verifier struct {
	anchors []*x509.Certificate // of trusted_ca, in its order
	from    string              // where trusted_ca came from
	roots   *x509.CertPool      // nil: chains are not verified
	usage   x509.ExtKeyUsage
	depth   int
	now     func() time.Time

	allowExpired    bool
	acceptUntrusted bool
	suppressCAs     bool

	sans         []sanMatcher
	spki, hashes [][sha256.Size]byte

	crls         []*crl
	leafCRLsOnly bool
}

// expectation is what one connection adds to the configured rules.
type expectation struct {
	// anyOf: the certificate must have one of these names (TS-13); empty for no
	// such rule.
	anyOf []string
	// sni takes the place of the configured matchers (TS-11); empty for no
	// such rule.
	sni string
}

// asks reports whether a server wants to see a client's certificate.
func (v *verifier) asks() bool {
	return v.roots != nil || v.acceptUntrusted || v.pinned() || len(v.sans) > 0
}

// demands reports whether there must be a certificate.
func (v *verifier) demands() bool {
	return !v.acceptUntrusted && (v.pinned() || len(v.sans) > 0)
}

func (v *verifier) pinned() bool { return len(v.spki) > 0 || len(v.hashes) > 0 }

// verify checks a peer's chain, leaf first, at least one certificate. It
// reports whether anything was checked.
func (v *verifier) verify(chain []*x509.Certificate, want expectation) (checked bool, err error) {
	leaf := chain[0]
	if v.roots != nil {
		if err := v.verifyChain(chain); err != nil {
			return false, &verifyError{ClassVerifyError, err.Error()}
		}
		checked = true
	}
	if len(want.anyOf) > 0 || want.sni != "" || len(v.sans) > 0 {
		if err := v.verifySANs(leaf, want); err != nil {
			return false, err
		}
		checked = true
	}
	if v.pinned() {
		if !slices.Contains(v.spki, sha256.Sum256(leaf.RawSubjectPublicKeyInfo)) && !slices.Contains(v.hashes, sha256.Sum256(leaf.Raw)) {
			return false, &verifyError{ClassVerifyCertificate, "cert hash and spki"}
		}
		checked = true
	}
	return checked, nil
}

func (v *verifier) verifySANs(leaf *x509.Certificate, want expectation) error {
	have := sansOf(leaf)
	if len(want.anyOf) > 0 && !slices.ContainsFunc(have, func(s san) bool { return matchesAny(s, want.anyOf) }) {
		return wrongSAN(have)
	}
	if want.sni != "" {
		if !slices.ContainsFunc(have, func(s san) bool {
			return s.kind == tlsv3.SubjectAltNameMatcher_DNS && dnsMatches(want.sni, s.text)
		}) {
			return wrongSAN(have)
		}
		return nil
	}
	if len(v.sans) > 0 && !slices.ContainsFunc(have, func(s san) bool {
		return slices.ContainsFunc(v.sans, func(m sanMatcher) bool { return m.matches(s) })
	}) {
		return wrongSAN(have)
	}
	return nil
}

func wrongSAN(have []san) error {
	return &verifyError{ClassVerifySAN, "SAN matcher, certificate SANs are [" + sanList(have) + "]"}
}

func matchesAny(s san, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		switch s.kind {
		case tlsv3.SubjectAltNameMatcher_DNS:
			return dnsMatches(n, s.text)
		case tlsv3.SubjectAltNameMatcher_URI, tlsv3.SubjectAltNameMatcher_IP_ADDRESS:
			return n == s.text
		}
		return false
	})
}

func sanList(sans []san) string {
	texts := make([]string, 0, len(sans))
	for _, s := range sans {
		texts = append(texts, s.text)
	}
	return strings.Join(texts, ", ")
}

// verifyChain looks for a chain to a trusted certificate, be that a root or
// not, that is short enough and not revoked.
func (v *verifier) verifyChain(chain []*x509.Certificate) error {
	now := v.now()
	leaf, others := chain[0], x509.NewCertPool()
	if v.allowExpired {
		leaf = timeless(leaf)
	}
	for _, c := range chain[1:] {
		if v.allowExpired {
			c = timeless(c)
		}
		others.AddCert(c)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{
		Roots: v.roots, Intermediates: others, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{v.usage},
	})
	if err != nil {
		return fmt.Errorf("X509_verify_cert: %w", err)
	}
	for _, c := range chains {
		if len(c)-1 > v.depth {
			err = fmt.Errorf("certificate chain too long: %d certificates above the peer's, max_verify_depth is %d", len(c)-1, v.depth)
			continue
		}
		if err = v.checkRevocation(c, now); err == nil {
			return nil
		}
	}
	return err
}

// timeless is a certificate for which every moment is within its validity.
func timeless(c *x509.Certificate) *x509.Certificate {
	t := *c
	t.NotBefore, t.NotAfter = time.Unix(0, 0), time.Unix(1<<40, 0)
	return &t
}

// Envoy's limit (TS-10).
const defaultVerifyDepth = 100

// newVerifier reads a validation context; nil gives a verifier that accepts
// everything.
func (o Options) newVerifier(path string, c *tlsv3.CertificateValidationContext, usage x509.ExtKeyUsage) (*verifier, error) {
	v := &verifier{usage: usage, depth: defaultVerifyDepth, now: o.Now}
	if c == nil {
		return v, nil
	}
	const hidden = "not implemented by Envoy either: remove it"
	err := refuseUnbuilt(path, c, []string{
		"trusted_ca", "watched_directory", "verify_certificate_spki", "verify_certificate_hash",
		"match_typed_subject_alt_names", "match_subject_alt_names", "crl", "allow_expired_certificate",
		"trust_chain_verification", "only_verify_leaf_cert_crl", "max_verify_depth", "suppress_client_ca_list",
	}, map[string]string{
		"custom_validator_config":              "certificate validator extensions are not built",
		"ca_certificate_provider_instance":     hidden,
		"system_root_certs":                    hidden + ", give the roots' file in trusted_ca",
		"require_signed_certificate_timestamp": hidden,
	})
	if err != nil {
		return nil, err
	}
	if c.GetWatchedDirectory() != nil {
		o.Logger.Warn("has no effect: only validation contexts given by secret discovery are watched", "field", path+".watched_directory")
	}
	v.allowExpired, v.leafCRLsOnly, v.suppressCAs = c.GetAllowExpiredCertificate(), c.GetOnlyVerifyLeafCertCrl(), c.GetSuppressClientCaList()
	if d := c.GetMaxVerifyDepth(); d != nil {
		v.depth = int(min(d.GetValue(), defaultVerifyDepth))
	}
	switch m := c.GetTrustChainVerification(); m {
	case tlsv3.CertificateValidationContext_VERIFY_TRUST_CHAIN:
	case tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED:
		v.acceptUntrusted = true
	default:
		return nil, fmt.Errorf("%s.trust_chain_verification: unknown value %d", path, m)
	}
	return v, errors.Join(o.readTrust(path, c, v), readPins(path, c, v), checkInsecure(path, c, v))
}

// readTrust reads trusted_ca and crl.
func (o Options) readTrust(path string, c *tlsv3.CertificateValidationContext, v *verifier) error {
	if c.GetTrustedCa() != nil {
		p := path + ".trusted_ca"
		data, from, err := o.load(p, c.GetTrustedCa())
		if err != nil {
			return err
		}
		if v.anchors, err = parsePEMCertificates(data); err != nil {
			return fmt.Errorf("%s: Failed to load trusted CA certificates from %s: %w", p, from, err)
		}
		v.from, v.roots = from, x509.NewCertPool()
		for _, a := range v.anchors {
			if v.allowExpired {
				a = timeless(a)
			}
			v.roots.AddCert(a)
		}
		if v.crls, err = parseCRLs(data); err != nil {
			return fmt.Errorf("%s: Failed to load CRL from %s: %w", p, from, err)
		}
	}
	if c.GetCrl() != nil {
		p := path + ".crl"
		data, from, err := o.load(p, c.GetCrl())
		if err != nil {
			return err
		}
		lists, err := parseCRLs(data)
		if err == nil && len(lists) == 0 {
			err = errors.New("it holds no PEM block of type X509 CRL")
		}
		if err != nil {
			return fmt.Errorf("%s: Failed to load CRL from %s: %w", p, from, err)
		}
		if v.roots == nil {
			return fmt.Errorf("%s: Failed to load CRL from %s without trusted CA", p, from)
		}
		v.crls = append(v.crls, lists...)
	}
	return nil
}

func readPins(path string, c *tlsv3.CertificateValidationContext, v *verifier) error {
	var errs []error
	for i, s := range c.GetVerifyCertificateSpki() {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(b) != sha256.Size {
			errs = append(errs, fmt.Errorf("%s.verify_certificate_spki[%d]: Invalid base64-encoded SHA-256 %s", path, i, s))
			continue
		}
		v.spki = append(v.spki, [sha256.Size]byte(b))
	}
	for i, s := range c.GetVerifyCertificateHash() {
		b, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
		if err != nil || len(b) != sha256.Size {
			errs = append(errs, fmt.Errorf("%s.verify_certificate_hash[%d]: Invalid hex-encoded SHA-256 %s", path, i, s))
			continue
		}
		v.hashes = append(v.hashes, [sha256.Size]byte(b))
	}
	var err error
	v.sans, err = parseSANMatchers(path, c)
	return errors.Join(append(errs, err)...)
}

// checkInsecure refuses rules that mean nothing without a trusted authority.
func checkInsecure(path string, c *tlsv3.CertificateValidationContext, v *verifier) error {
	switch {
	case c.GetTrustedCa() != nil:
		return nil
	case len(v.sans) > 0:
		return fmt.Errorf("%s: SAN-based verification of peer certificates without trusted CA is insecure and not allowed", path)
	case v.allowExpired:
		return fmt.Errorf("%s: Certificate validity period is always ignored without trusted CA", path)
	}
	return nil
}
