package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/filewatch"
)

// secretFiles are the files of a secret that is discovered, which are watched
// (TS-15).
type secretFiles struct {
	secret *tlsv3.Secret     // with the names
	hash   [sha256.Size]byte // of what is in force, or was refused last
}

// atomically is how often the files of a secret are read again for one state of
// all of them.
const atomically = 5

// fileSources are the parts of a secret that are in files, and the directories
// whose changes are changes of these.
func fileSources(s *tlsv3.Secret) (sources []*corev3.DataSource, dirs []string) {
	c, v := s.GetTlsCertificate(), s.GetValidationContext()
	all := []*corev3.DataSource{c.GetCertificateChain(), c.GetPrivateKey(), v.GetTrustedCa(), v.GetCrl()}
	all = append(all, s.GetSessionTicketKeys().GetKeys()...)
	for _, d := range all {
		if d.GetFilename() != "" {
			sources, dirs = append(sources, d), append(dirs, d.GetWatchedDirectory().GetPath())
		}
	}
	if len(sources) > 0 {
		for _, d := range []*corev3.WatchedDirectory{c.GetWatchedDirectory(), v.GetWatchedDirectory()} {
			dirs = append(dirs, d.GetPath())
		}
	}
	return sources, dirs
}

// same reports whether what was read is the same; there may be no files.
func (f *secretFiles) same(as *secretFiles) bool {
	return f == nil && as == nil || f != nil && as != nil && f.hash == as.hash
}

// needs notes what a secret is read from.
func (f *secretFiles) needs(n *filewatch.Needs) {
	sources, dirs := fileSources(f.secret)
	for _, d := range sources {
		n.File(d.GetFilename())
	}
	for _, d := range dirs {
		n.Dir(d)
	}
}

// readSecret puts what is in the files of a secret in their place. Without any it
// is the secret itself, and no files. Who replaces them one link at a time is not
// met half-way: they are read until two readings agree.
func (p *Proxy) readSecret(secret *tlsv3.Secret) (*tlsv3.Secret, *secretFiles, error) {
	sources, _ := fileSources(secret)
	if len(sources) == 0 {
		return secret, nil, nil
	}
	files := &secretFiles{secret: secret}
	contents, err := p.readSources(files, sources)
	for range atomically {
		before := files.hash
		if contents, err = p.readSources(files, sources); files.hash == before {
			break
		}
	}
	if err != nil {
		return nil, files, err
	}
	whole := proto.CloneOf(secret)
	sources, _ = fileSources(whole)
	for i, d := range sources {
		d.Specifier, d.WatchedDirectory = &corev3.DataSource_InlineBytes{InlineBytes: contents[i]}, nil
	}
	if c := whole.GetTlsCertificate(); c != nil {
		c.WatchedDirectory = nil
	}
	if v := whole.GetValidationContext(); v != nil {
		v.WatchedDirectory = nil
	}
	return whole, files, nil
}

// readSources reads files once. The hash is of the error if there is one.
func (p *Proxy) readSources(f *secretFiles, sources []*corev3.DataSource) ([][]byte, error) {
	h := sha256.New()
	contents := make([][]byte, len(sources))
	for i, d := range sources {
		data, err := p.tls.ReadFile(d.GetFilename())
		if err != nil {
			f.hash = sha256.Sum256([]byte(err.Error()))
			return nil, fmt.Errorf("the file %q, which it names, cannot be read: %w", d.GetFilename(), err)
		}
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		_, _ = h.Write(data)
		contents[i] = data
	}
	h.Sum(f.hash[:0])
	return contents, nil
}

// watchSecrets reads the files of secrets again when they have changed, until ctx
// ends.
func (r *Resources) watchSecrets(ctx context.Context) {
	filewatch.Run(ctx, r.secretFiles, r.p.component("file"), func() *filewatch.Needs { //nolint:contextcheck // it has ctx by r
		n := &filewatch.Needs{}
		for s, f := range r.filedSecrets() {
			f.needs(n)
			r.rotate(s, f)
		}
		return n
	})
}

// watchFiles says that other files are to be watched. r.mu is held.
func (r *Resources) watchFiles() {
	select {
	case r.secretFiles <- struct{}{}:
	default:
	}
}

// filedSecrets are the secrets in files.
func (r *Resources) filedSecrets() map[*secretState]*secretFiles {
	r.lock()
	defer r.unlock()
	out := map[*secretState]*secretFiles{}
	for _, list := range r.secrets {
		for _, s := range list {
			if s.files != nil {
				out[s] = s.files
			}
		}
	}
	return out
}

// rotate puts what the files of a secret hold in force, if it is something new. What
// is of no use changes nothing and is counted, once.
func (r *Resources) rotate(s *secretState, f *secretFiles) {
	whole, read, err := r.p.readSecret(f.secret)
	r.lock()
	defer r.unlock()
	if r.stopped || s.files != f || read.hash == f.hash {
		return
	}
	s.files = read
	var installs []func()
	if err == nil {
		installs, err = r.trySecret(s, whole)
	}
	if err != nil {
		r.p.stat.Main().Inc(s.stats.KeyRotationFailed)
		r.p.component("file").Warn("the files of a secret are of no use; what was there before stays", "secret", s.name, "error", err)
		return
	}
	s.last = whole
	r.installSecret(s, installs)
}
