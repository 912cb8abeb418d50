package tlsio

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// crl is a certificate revocation list, ready for look-ups.
type crl struct {
	list    *x509.RevocationList
	revoked map[string]bool // by serial number's bytes
}

// parseCRLs reads the lists of a PEM file, possibly none.
func parseCRLs(data []byte) ([]*crl, error) {
	var out []*crl
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("list %d: %w", len(out)+1, err)
		}
		for _, ext := range list.Extensions {
			if ext.Critical {
				return nil, fmt.Errorf("list %d: critical extension %s is not built (delta and indirect lists are not)", len(out)+1, ext.Id)
			}
		}
		c := &crl{list: list, revoked: map[string]bool{}}
		for _, e := range list.RevokedCertificateEntries {
			c.revoked[string(e.SerialNumber.Bytes())] = true
		}
		out = append(out, c)
	}
	return out, nil
}

// checkRevocation looks each certificate of a verified chain up in the list of
// its issuer, which must exist as soon as there is any list; with
// only_verify_leaf_cert_crl the peer's own only. A trusted certificate that
// another has issued is not looked up: nobody vouches for it but us.
func (v *verifier) checkRevocation(chain []*x509.Certificate, now time.Time) error {
	if len(v.crls) == 0 {
		return nil
	}
	for i, cert := range chain {
		if i > 0 && v.leafCRLsOnly {
			return nil
		}
		issuer := cert
		if i+1 < len(chain) {
			issuer = chain[i+1]
		} else if !bytes.Equal(cert.RawIssuer, cert.RawSubject) {
			return nil
		}
		if err := v.lookUp(cert, issuer, now); err != nil {
			return fmt.Errorf("X509_verify_cert: certificate verification error at depth %d: %w", i, err)
		}
	}
	return nil
}

// lookUp fails unless a current list of the issuer leaves the certificate out
// and none names it.
func (v *verifier) lookUp(cert, issuer *x509.Certificate, now time.Time) error {
	err := errors.New("unable to get certificate CRL")
	good := false
	for _, c := range v.crls {
		if !bytes.Equal(c.list.RawIssuer, issuer.RawSubject) {
			continue
		}
		switch sigErr := c.list.CheckSignatureFrom(issuer); {
		case sigErr != nil:
			err = fmt.Errorf("CRL signature failure: %w", sigErr)
		case c.revoked[string(cert.SerialNumber.Bytes())]:
			return errors.New("certificate revoked")
		case now.Before(c.list.ThisUpdate):
			err = errors.New("CRL is not yet valid")
		case !c.list.NextUpdate.IsZero() && now.After(c.list.NextUpdate):
			err = errors.New("CRL has expired")
		default:
			good = true
		}
	}
	if good {
		return nil
	}
	return err
}

// acceptableCAs are the authorities a server names when it asks for a
// certificate, nil for none.
func (v *verifier) acceptableCAs() *x509.CertPool {
	if v.suppressCAs || v.roots == nil {
		return nil
	}
	pool := x509.NewCertPool()
	for _, a := range v.anchors {
		pool.AddCert(a)
	}
	return pool
}
