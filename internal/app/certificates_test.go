package app

import (
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/internal/admin"
	"github.com/xebec-proxy/xebec/internal/testcert"
)

// pki is a directory with ca.pem and the pair server.pem, server-key.pem.
func pki(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := testcert.WriteSet(dir, "server", "client"); err != nil {
		t.Fatal(err)
	}
	return dir
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func testCertificates(t *testing.T, dir string) (*certificates, *admin.Events) {
	t.Helper()
	events := admin.NewEvents()
	c, err := newCertificates(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"), filepath.Join(dir, "ca.pem"),
		slog.New(slog.DiscardHandler), events)
	if err != nil {
		t.Fatal(err)
	}
	return c, events
}

// TestCertificatesChangeAsPairs replaces the certificate, then the key: the
// pair in use is the old one until both are there.
func TestCertificatesChangeAsPairs(t *testing.T) {
	dir, next := pki(t), pki(t)
	c, events := testCertificates(t, dir)
	old := c.current.Load()
	c.follow()
	if c.current.Load() != old {
		t.Error("reloaded although nothing has changed")
	}

	move(t, filepath.Join(next, "server.pem"), filepath.Join(dir, "server.pem"))
	c.follow()
	c.follow()
	if c.current.Load() != old {
		t.Error("a certificate is in use without its key")
	}
	if got := events.After(0); len(got) != 1 || !strings.Contains(got[0].Message, "refused") {
		t.Errorf("events %v, want one refusal", got)
	}

	move(t, filepath.Join(next, "server-key.pem"), filepath.Join(dir, "server-key.pem"))
	c.follow()
	if c.current.Load() == old {
		t.Error("the new pair is not in use")
	}
	if got := events.After(1); len(got) != 1 || got[0].Message != "reloaded" {
		t.Errorf("events %v, want a reload", got)
	}

	good := c.current.Load()
	if err := os.Remove(filepath.Join(dir, "server.pem")); err != nil {
		t.Fatal(err)
	}
	c.follow()
	if c.current.Load() != good {
		t.Error("a missing file has replaced what was in use")
	}
}

func TestCertificatesMustFit(t *testing.T) {
	dir, other := pki(t), pki(t)
	log, events := slog.New(slog.DiscardHandler), admin.NewEvents()
	in := func(dir, name string) string { return filepath.Join(dir, name) }
	for name, files := range map[string][3]string{
		"a key of another certificate": {in(dir, "server.pem"), in(other, "server-key.pem"), ""},
		"no certificate":               {in(dir, "absent.pem"), in(dir, "server-key.pem"), ""},
		"an authority that is a key":   {in(dir, "server.pem"), in(dir, "server-key.pem"), in(dir, "server-key.pem")},
	} {
		if _, err := newCertificates(files[0], files[1], files[2], log, events); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestServerFollowsCertificates changes the files under a running server, as
// tools do that swap a symbolic link to a directory.
func TestServerFollowsCertificates(t *testing.T) {
	base, first, second := t.TempDir(), pki(t), pki(t)
	link := filepath.Join(base, "live")
	if err := os.Symlink(first, link); err != nil {
		t.Skip(err)
	}
	s := settings(t)
	// The directory that is watched holds a link for each file.
	for _, name := range []string{"server.pem", "server-key.pem"} {
		if err := os.Symlink(filepath.Join("live", name), filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.TLSCert, s.TLSKey = filepath.Join(base, "server.pem"), filepath.Join(base, "server-key.pem")
	m := run(t, s)
	serial := func() string {
		conn, err := tls.Dial("tcp", m.XDSAddress(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	old := serial()
	if err := os.Symlink(second, filepath.Join(base, "next")); err != nil {
		t.Fatal(err)
	}
	move(t, filepath.Join(base, "next"), link)
	await(t, "the new certificate", func() bool { return serial() != old })
}
