// Package testcert makes certificates for tests.
package testcert

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/xebec-proxy/xebec/internal/localcert"
)

// life is how long everything is valid.
const life = time.Hour

// Authority signs certificates.
type Authority struct{ *localcert.Authority }

// NewAuthority makes an authority, valid for an hour.
func NewAuthority(name string) (*Authority, error) {
	a, err := localcert.New(name, life)
	return &Authority{a}, err //nolint:wrapcheck // it says what failed
}

// Issue makes a certificate for servers and clients on 127.0.0.1 and localhost,
// valid for an hour, and returns it and its key as PEM.
func (a *Authority) Issue(name string) (cert, key []byte, err error) {
	return a.Authority.Issue(name, life) //nolint:wrapcheck // it says what failed
}

// WriteSet writes ca.pem and, signed by it, NAME.pem and NAME-key.pem for each
// name, into a directory.
func WriteSet(dir string, names ...string) error {
	a, err := NewAuthority("test authority")
	if err != nil {
		return err
	}
	files := map[string][]byte{"ca.pem": a.PEM()}
	for _, n := range names {
		if files[n+".pem"], files[n+"-key.pem"], err = a.Issue(n); err != nil {
			return err
		}
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("writing certificates: %w", err)
		}
	}
	return nil
}
