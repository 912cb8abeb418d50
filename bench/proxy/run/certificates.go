package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const rsaBits = 2048

// writeCertificates writes ecdsa.pem and rsa.pem, each a self-signed
// certificate for bench.example and its key, which every proxy uses.
func writeCertificates(dir string) error {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	r, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return fmt.Errorf("making a key: %w", err)
	}
	for name, key := range map[string]crypto.Signer{"ecdsa": ec, "rsa": r} {
		b, err := certificate(key)
		if err != nil {
			return fmt.Errorf("making the %s certificate: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".pem"), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func certificate(key crypto.Signer) ([]byte, error) {
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "bench.example"},
		DNSNames: []string{"bench.example"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return append(b, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})...), nil
}
