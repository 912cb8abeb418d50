package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/xebec-proxy/xebec/internal/admin"
)

// How long files must be quiet before they are read, and how often they are
// read although nothing was announced.
const (
	certificateQuiet  = 100 * time.Millisecond
	certificateRescan = 10 * time.Second
)

// certificates is the server's TLS configuration from files. A change is taken
// over only if certificate and key fit together and everything can be read;
// until then what there was stays in use.
type certificates struct {
	cert, key, clientCA string
	log                 *slog.Logger
	events              *admin.Events
	current             atomic.Pointer[tls.Config]

	// Owned by run, after newCertificates.
	bytes   [3]string
	lastErr string
}

func newCertificates(cert, key, clientCA string, log *slog.Logger, events *admin.Events) (*certificates, error) {
	c := &certificates{cert: cert, key: key, clientCA: clientCA, log: log, events: events}
	if _, err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// config is a server configuration that always uses the present files.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// reload reads the files and reports whether anything in them is new.
func (c *certificates) reload() (bool, error) {
	var now [3]string
	for i, name := range []string{c.cert, c.key, c.clientCA} {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return false, fmt.Errorf("the TLS files cannot be read: %w", err)
		}
		now[i] = string(data)
	}
	if now == c.bytes {
		return false, nil
	}
	cfg, err := c.build(now)
	if err != nil {
		return false, err
	}
	c.bytes = now
	c.current.Store(cfg)
	return true, nil
}

func (c *certificates) build(files [3]string) (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(files[0]), []byte(files[1]))
	if err != nil {
		return nil, fmt.Errorf("certificate %s and key %s: %w", c.cert, c.key, err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if c.clientCA == "" {
		return cfg, nil
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM([]byte(files[2])) {
		return nil, fmt.Errorf("%s holds no certificate; it should be a PEM file with those of the clients' authorities", c.clientCA)
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	return cfg, nil
}

// run follows the files until the context ends. It watches the directories
// they are in, since tools replace such files rather than write into them.
func (c *certificates) run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching the TLS files: %w", err)
	}
	for _, dir := range c.directories() {
		if err := watcher.Add(dir); err != nil {
			c.log.Warn("changes of TLS files will be noticed late", "dir", dir, "error", err)
		}
	}
	quiet := time.NewTimer(certificateQuiet)
	defer quiet.Stop()
	rescan := time.NewTicker(certificateRescan)
	defer rescan.Stop()
	for {
		select {
		case <-ctx.Done():
			return watcher.Close()
		case <-watcher.Events:
			quiet.Reset(certificateQuiet)
		case err := <-watcher.Errors:
			c.log.Debug("notifications about TLS files were lost", "error", err)
			quiet.Reset(certificateQuiet)
		case <-quiet.C:
			c.follow()
		case <-rescan.C:
			c.follow()
		}
	}
}

func (c *certificates) directories() []string {
	var l []string
	for _, name := range []string{c.cert, c.key, c.clientCA} {
		if name != "" {
			l = append(l, filepath.Dir(name))
		}
	}
	slices.Sort(l)
	return slices.Compact(l)
}

// follow takes over what is new, and says what keeps it from that, once.
func (c *certificates) follow() {
	changed, err := c.reload()
	switch {
	case err != nil && err.Error() != c.lastErr:
		c.lastErr = err.Error()
		c.log.Warn("the TLS files have changed but cannot be used; those before stay in use", "error", err)
		c.events.Add("certificates", "refused: "+err.Error())
	case changed:
		c.log.Info("the TLS files have changed and are in use for new connections", "expires", c.expiry())
		c.events.Add("certificates", "reloaded")
	}
	if err == nil {
		c.lastErr = ""
	}
}

// expiry is when the server's certificate ends.
func (c *certificates) expiry() time.Time {
	cfg := c.current.Load()
	if leaf := cfg.Certificates[0].Leaf; leaf != nil {
		return leaf.NotAfter
	}
	return time.Time{}
}

var errNoCertificate = errors.New("the client has shown no certificate of an authority in --tls-client-ca")

func describeTLS(s *Settings) string {
	switch {
	case s.TLSCert == "":
		return "plaintext"
	case s.TLSClientCA == "":
		return "TLS"
	}
	return "TLS with client certificates"
}
