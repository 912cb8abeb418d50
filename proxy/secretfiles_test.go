package proxy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/proxy"
)

// volume is a directory as kubernetes mounts secrets: what is in it are links to
// what is in the directory that the link ..data names, which is replaced as a whole.
type volume struct {
	dir string
	seq int
}

func newVolume(t *testing.T) *volume {
	t.Helper()
	v := &volume{dir: t.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key"} {
		must(t, os.Symlink("..data/"+name, filepath.Join(v.dir, name)))
	}
	return v
}

// swap replaces what is in the volume.
func (v *volume) swap(t *testing.T, cert, key []byte) {
	t.Helper()
	v.seq++
	name := fmt.Sprintf("..%d", v.seq)
	must(t, os.Mkdir(filepath.Join(v.dir, name), 0o700))
	for file, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if data != nil {
			must(t, os.WriteFile(filepath.Join(v.dir, name, file), data, 0o600))
		}
	}
	must(t, os.Symlink(name, filepath.Join(v.dir, "..tmp")))
	must(t, os.Rename(filepath.Join(v.dir, "..tmp"), filepath.Join(v.dir, "..data")))
}

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }

// bySDS is a listener whose certificate is a secret of a file.
func bySDS(sds string) string {
	return bootstrapOf(listenChains("l", `{filters: [`+okFilter+`], transport_socket: {name: tls, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext,
      common_tls_context: {tls_certificate_sds_secret_configs: [{name: s, sds_config: {path_config_source: {path: `+sds+`}}}]}}}}`), "")
}

// secretIn is a file of a secret that is in a volume.
func secretIn(v *volume, more string) string {
	return `
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: s
  tls_certificate: {certificate_chain: {filename: ` + v.path("tls.crt") + `}, private_key: {filename: ` + v.path("tls.key") + `}` + more + "}\n"
}

// Proves TS-15: key and certificate are replaced together, a pair that does not
// fit, or is not whole, changes nothing and is counted, and connections go on.
func TestKeysRotateInFiles(t *testing.T) {
	for name, watched := range map[string]bool{"watched_directory": true, "directories of the files": false} {
		t.Run(name, func(t *testing.T) {
			a, err := testcert.NewAuthority("test")
			must(t, err)
			v := newVolume(t)
			cert, key, err := a.Issue("acme.com")
			must(t, err)
			v.swap(t, cert, key)
			sds := filepath.Join(t.TempDir(), "sds.yaml")
			dir := ""
			if watched {
				dir = ", watched_directory: {path: " + v.dir + "}"
			}
			must(t, os.WriteFile(sds, []byte(secretIn(v, dir)), 0o600))
			r := start(t, bySDS(sds))
			at := r.at("l")
			first := dialTLS(t, at, a)
			first.expect(t, "fine", true)
			r.until(t, "sds.s.key_rotation_failed: 0", "sds.s.update_success: 1")

			other, otherKey, err := a.Issue("acme.com")
			must(t, err)
			v.swap(t, other, key)
			r.until(t, "sds.s.key_rotation_failed: 1")
			v.swap(t, other, nil)
			r.until(t, "sds.s.key_rotation_failed: 2")
			if serialAt(t, at, a) != first.serial {
				t.Error("a pair that does not fit has changed the certificate")
			}
			v.swap(t, other, otherKey)
			rotated(t, at, a, first.serial)
			first.expect(t, "fine", true)
			r.until(t, "sds.s.key_rotation_failed: 2", "sds.s.update_success: 1", "sds.s.update_rejected: 0")
		})
	}
}

// Proves TS-15, with the tests below: files that are written in place are read again when
// something is moved in the directory that is to be watched for them, wherever that is.
func TestKeysRotateByAnotherDirectory(t *testing.T) {
	a, err := testcert.NewAuthority("test")
	must(t, err)
	for name, of := range map[string][2]string{"of the certificate": {"", ", watched_directory: {path: DIR}"}, "of a file": {", watched_directory: {path: DIR}", ""}} {
		t.Run(name, func(t *testing.T) {
			files, other, watched := t.TempDir(), t.TempDir(), t.TempDir()
			write := func(dir string) {
				t.Helper()
				cert, key, err := a.Issue("acme.com")
				must(t, err)
				must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
				must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
			}
			move := func(from, to string) { must(t, os.Rename(from, to)) }
			write(files)
			sds := filepath.Join(t.TempDir(), "sds.yaml")
			must(t, os.WriteFile(sds, []byte(strings.ReplaceAll(`
resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: s
  tls_certificate: {certificate_chain: {filename: `+filepath.Join(files, "tls.crt")+of[0]+`}, private_key: {filename: `+filepath.Join(files, "tls.key")+"}"+of[1]+"}\n", "DIR", watched)), 0o600))
			r := start(t, bySDS(sds))
			first := serialAt(t, r.at("l"), a)
			write(other)
			move(filepath.Join(other, "tls.crt"), filepath.Join(files, "tls.crt"))
			move(filepath.Join(other, "tls.key"), filepath.Join(files, "tls.key"))
			rotated(t, r.at("l"), a, first) // from now on nothing is read without a reason
			second := serialAt(t, r.at("l"), a)
			write(files)
			must(t, os.WriteFile(filepath.Join(watched, "tmp"), nil, 0o600))
			move(filepath.Join(watched, "tmp"), filepath.Join(watched, "done"))
			rotated(t, r.at("l"), a, second)
		})
	}
}

// rotated waits for another certificate.
func rotated(t *testing.T, at string, a *testcert.Authority, than string) {
	t.Helper()
	for range 500 {
		if serialAt(t, at, a) != than {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the certificate has not changed")
}

// Proves TS-15: a pair that is replaced while it is being read is read again.
func TestKeysAreReadTogether(t *testing.T) {
	a, err := testcert.NewAuthority("test")
	must(t, err)
	v := newVolume(t)
	cert, key, err := a.Issue("acme.com")
	must(t, err)
	other, otherKey, err := a.Issue("acme.com")
	must(t, err)
	v.swap(t, cert, key)
	sds := filepath.Join(t.TempDir(), "sds.yaml")
	must(t, os.WriteFile(sds, []byte(secretIn(v, "")), 0o600))
	var swaps atomic.Int64 // of the first readings none is of one pair
	r := start(t, bySDS(sds), func(_ *proxyrun.Flags, o *proxy.Options) {
		o.ReadFile = func(name string) ([]byte, error) {
			data, err := os.ReadFile(name)
			if name == v.path("tls.crt") {
				switch swaps.Add(1) {
				case 1, 3:
					v.swap(t, other, otherKey)
				case 2:
					v.swap(t, cert, key)
				}
			}
			return data, err
		}
	})
	dialTLS(t, r.at("l"), a).expect(t, "fine", true)
	r.until(t, "sds.s.update_success: 1", "sds.s.update_rejected: 0", "sds.s.key_rotation_failed: 0")
}

// Proves TS-15: the files of a secret are watched wherever the secret came from, also
// before they are there.
func TestKeysOfServersRotateInFiles(t *testing.T) {
	a, err := testcert.NewAuthority("test")
	must(t, err)
	v := newVolume(t)
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	at := freeAddress(t)
	c := chainOf(manager(with(saying("r", "secret"))))
	c.TransportSocket = socketOf(downstream("cert"))
	must(t, res.SetListener(listenerAt("l", at, c), "1"))
	s.wants(t, "map[Secret cert:true]")
	in := func(name string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: v.path(name)}, WatchedDirectory: &corev3.WatchedDirectory{Path: v.dir}}
	}
	err = res.SetSecret(ads(), &tlsv3.Secret{Name: "cert", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: in("tls.crt"), PrivateKey: in("tls.key"),
	}}}, "1")
	if err == nil || !strings.Contains(err.Error(), "tls.crt") {
		t.Errorf("without files: %v", err)
	}
	cert, key, err := a.Issue("acme.com")
	must(t, err)
	v.swap(t, cert, key)
	first := dialTLS(t, at, a)
	first.expect(t, "secret", true)
	cert, key, err = a.Issue("acme.com")
	must(t, err)
	v.swap(t, cert, key)
	rotated(t, at, a, first.serial)
	first.expect(t, "secret", true)
	_ = first.Close()
	res.RemoveListener("l")
	s.wants(t, "map[]")
}
