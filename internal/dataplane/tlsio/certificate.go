package tlsio

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// certificate is a certificate we present, with its key.
type certificate struct {
	tls  tls.Certificate
	leaf *x509.Certificate
	from string // file name or <inline>
	// names are what SNI selects it by: DNS SANs, else the common name; lower case.
	names []string
	ecdsa bool
	facts *CertificateInfo
}

const minRSABits = 2048

// loadCertificate reads one TlsCertificate (TS-02).
func (o Options) loadCertificate(path string, c *tlsv3.TlsCertificate) (*certificate, error) {
	err := refuseUnbuilt(path, c, []string{"certificate_chain", "private_key", "watched_directory"}, map[string]string{
		"pkcs12":                       "PKCS#12 is not built: give certificate_chain and private_key as PEM",
		"password":                     "encrypted private keys are not built: give the key unencrypted",
		"private_key_provider":         "private key providers are not built: give private_key",
		"ocsp_staple":                  "OCSP stapling is not built",
		"signed_certificate_timestamp": "not implemented by Envoy either: remove it",
		"tls_params":                   "parameters of single certificates are not built: use tls_params of common_tls_context",
	})
	if err != nil {
		return nil, err
	}
	if c.GetWatchedDirectory() != nil {
		o.Logger.Warn("has no effect: only certificates given by secret discovery are watched", "field", path+".watched_directory")
	}
	if c.GetCertificateChain() == nil {
		return nil, fmt.Errorf("%s.certificate_chain: Failed to load incomplete certificate: certificate chain not set", path)
	}
	if c.GetPrivateKey() == nil {
		return nil, fmt.Errorf("%s.private_key: Failed to load incomplete private key: set filename or inline", path)
	}
	chain, chainFrom, err := o.load(path+".certificate_chain", c.GetCertificateChain())
	if err != nil {
		return nil, err
	}
	key, keyFrom, err := o.load(path+".private_key", c.GetPrivateKey())
	if err != nil {
		return nil, err
	}
	if _, err := parsePEMCertificates(chain); err != nil {
		return nil, fmt.Errorf("%s.certificate_chain: Failed to load certificate chain from %s: %w", path, chainFrom, err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s.private_key: Failed to load private key from %s, Cause: %w", path, keyFrom, err)
	}
	return newCertificate(path, chainFrom, pair)
}

func newCertificate(path, from string, pair tls.Certificate) (*certificate, error) {
	leaf := pair.Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, fmt.Errorf("%s.certificate_chain: Failed to load certificate chain from %s: %w", path, from, err)
		}
		pair.Leaf = leaf
	}
	c := &certificate{tls: pair, leaf: leaf, from: from, names: sniNames(leaf), facts: describe(leaf)}
	switch k := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("%s.certificate_chain: Failed to load certificate chain from %s, only RSA certificates with %d-bit or larger keys are supported", path, from, minRSABits)
		}
	case *ecdsa.PublicKey:
		c.ecdsa = true
	}
	return c, nil
}

// sniNames: the DNS SANs count, the common name only without any (TS-07).
func sniNames(leaf *x509.Certificate) []string {
	var names []string
	for _, n := range leaf.DNSNames {
		names = append(names, strings.ToLower(n))
	}
	if len(names) == 0 && leaf.Subject.CommonName != "" {
		names = append(names, strings.ToLower(leaf.Subject.CommonName))
	}
	return names
}

// parsePEMCertificates reads all certificates of a PEM file, at least one.
func parsePEMCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("it holds no PEM block of type CERTIFICATE")
	}
	return certs, nil
}
