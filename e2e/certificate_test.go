//go:build interop

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/xebec-proxy/xebec/internal/testcert"
)

// certificate is a certificate for 127.0.0.1, its key, and the certificate of
// the authority that signed it and nothing else, all as PEM.
type certificate struct {
	name                string
	authority, pem, key string
}

// files writes the certificates and the key, and returns their names.
func (c certificate) files(t *testing.T) (authorityFile, certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	authorityFile, certFile, keyFile = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, text := range map[string]string{authorityFile: c.authority, certFile: c.pem, keyFile: c.key} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return authorityFile, certFile, keyFile
}

func newCertificate(t *testing.T, name string) certificate {
	t.Helper()
	authority, err := testcert.NewAuthority("authority of " + name)
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	return certificate{name: name, authority: string(authority.PEM()), pem: string(cert), key: string(key)}
}
