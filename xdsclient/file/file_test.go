package file_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsclient/file"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put moves a file with a text onto a path.
func put(t *testing.T, path, text string) {
	t.Helper()
	tmp := filepath.Join(t.TempDir(), "new")
	must(t, os.WriteFile(tmp, []byte(text), 0o600))
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.Rename(tmp, path))
}

// clusters is a file with clusters.
func clusters(version, alt string, names ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version_info: %q\nresources:\n", version)
	for _, n := range names {
		fmt.Fprintf(&b, "- '@type': %s\n  name: %s\n  alt_stat_name: %q\n", xds.ClusterType, n, alt)
	}
	return b.String()
}

func open(t *testing.T, cfg file.Config) *file.Transport {
	t.Helper()
	tr, err := file.New(cfg)
	must(t, err)
	tr.Hasten(5*time.Millisecond, 50*time.Millisecond, time.Hour)
	return tr
}

// seen is what watchers were told.
type seen struct {
	t    *testing.T
	mu   sync.Mutex
	said []string
	got  map[string]string
}

func (s *seen) say(name, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, name+" "+what)
	s.got[name] = what
}

func (s *seen) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

// await waits until a name is in a state.
func (s *seen) await(name, what string) {
	s.t.Helper()
	await(s.t, name+" to be "+what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.got[name] == what
	})
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func source(t *testing.T, tr *file.Transport, timeout time.Duration) *xdsclient.Source {
	t.Helper()
	src, err := xdsclient.NewSource(context.WithoutCancel(t.Context()), xdsclient.Config{
		PerType: true, ResourceTimeout: timeout, Servers: []xdsclient.Server{{Name: "file", Transport: tr}},
		Validators: map[string][]xdsclient.ResponseValidator{xds.ClusterType: {func(_ string, list []xdsclient.Candidate) error {
			for _, c := range list {
				if m, ok := c.Value.(*clusterv3.Cluster); ok && m.GetAltStatName() == "forbidden" {
					return fmt.Errorf("%s is forbidden", c.Name)
				}
			}
			return nil
		}}},
	})
	must(t, err)
	t.Cleanup(func() { must(t, src.Close()) })
	return src
}

// watch watches names of a type.
func watch[T any](t *testing.T, src *xdsclient.Source, typ xdsclient.Type[T], show func(T) string, names ...string) *seen {
	t.Helper()
	s := &seen{t: t, got: map[string]string{}}
	for _, n := range names {
		xdsclient.Watch(src, typ, n, xdsclient.Funcs[T]{
			Change: func(u xdsclient.Update[T]) { s.say(u.Name, show(u.Value)+" "+u.Version) },
			Error:  func(name string, _ error) { s.say(name, "missing") },
		})
	}
	return s
}

func watchClusters(t *testing.T, tr *file.Transport, names ...string) *seen {
	t.Helper()
	return watch(t, source(t, tr, 0), xdsclient.Clusters(), (*clusterv3.Cluster).GetAltStatName, names...)
}

// Proves XF-01 and, with TestMove, TestWatchedDirectory and TestUseless, GC-72:
// four formats, the same result. Partly proves BS-27 with these: a file that is
// written to in place is read as well.
func TestFormats(t *testing.T) {
	body, err := anypb.New(&clusterv3.Cluster{Name: "a", AltStatName: "x"})
	must(t, err)
	m := &discoveryv3.DiscoveryResponse{VersionInfo: "7", Resources: []*anypb.Any{body}}
	binary, err := proto.Marshal(m)
	must(t, err)
	text, err := prototext.Marshal(m)
	must(t, err)
	json, err := protojson.Marshal(m)
	must(t, err)
	for suffix, data := range map[string]string{
		".pb": string(binary), ".pb_text": string(text), ".json": string(json), ".yaml": clusters("7", "x", "a"), ".yml": clusters("7", "x", "a"),
	} {
		t.Run(suffix, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cds"+suffix)
			put(t, path, data)
			tr := open(t, file.Config{Path: path})
			watchClusters(t, tr, "a").await("a", "x 7")
			await(t, "the statistics", func() bool { return tr.Stats().Successes == 1 })
		})
	}
}

// Proves XF-02: the file must exist from the beginning.
func TestConfig(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "a.yaml")
	put(t, good, "{}")
	put(t, filepath.Join(dir, "a.txt"), "{}")
	_, err := file.New(file.Config{Path: filepath.Join(dir, "none.yaml")})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a missing file: %v", err)
	}
	for want, cfg := range map[string]file.Config{
		"name the file with":      {},
		"is a directory":          {Path: dir},
		`suffix ".txt"`:           {Path: filepath.Join(dir, "a.txt")},
		"is no directory":         {Path: good, WatchedDirectory: good},
		"watched_directory: it c": {Path: good, WatchedDirectory: filepath.Join(dir, "none")},
	} {
		if _, err := file.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one about %q", err, want)
		}
	}
	tr := open(t, file.Config{Path: good})
	for want, o := range map[string]xdsclient.Opening{"aggregated": {}, "delta": {TypeURL: xds.ClusterType, Delta: true}} {
		if _, err := tr.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one about %q", err, want)
		}
	}
}

// Proves XF-03 for a move onto the path, and XF-05: the version is that of the
// file, and what it no longer holds is deleted.
func TestMove(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cds.yaml")
	put(t, path, clusters("1", "x", "a", "b"))
	tr := open(t, file.Config{Path: path})
	s := watchClusters(t, tr, "a", "b")
	s.await("a", "x 1")
	s.await("b", "x 1")
	await(t, "the first version", func() bool { return tr.Stats().Version == "1" })
	put(t, path, clusters("2", "y", "a"))
	s.await("a", "y 2")
	s.await("b", "missing")
	await(t, "the version", func() bool { return tr.Stats().Version == "2" })
	must(t, os.Remove(path)) // nobody to ask: nothing changes
	time.Sleep(150 * time.Millisecond)
	put(t, path, clusters("3", "z", "a", "b"))
	s.await("a", "z 3")
	s.await("b", "z 3")
	if got := s.all(); slices.Contains(got, "a missing") {
		t.Errorf("the watchers were told %v", got)
	}
}

// Proves XF-03 for a watched directory: a mounted ConfigMap, whose files are
// links through one that is swapped.
func TestWatchedDirectory(t *testing.T) {
	for _, watched := range []bool{true, false} { // links on the way are followed anyhow
		t.Run(fmt.Sprint(watched), func(t *testing.T) {
			dir := t.TempDir()
			put(t, filepath.Join(dir, "..1/cds.yaml"), clusters("1", "x", "a"))
			must(t, os.Symlink("..1", filepath.Join(dir, "..data")))
			must(t, os.Symlink("..data/cds.yaml", filepath.Join(dir, "cds.yaml")))
			cfg := file.Config{Path: filepath.Join(dir, "cds.yaml")}
			if watched {
				cfg.WatchedDirectory = dir
			}
			s := watchClusters(t, open(t, cfg), "a")
			s.await("a", "x 1")
			for n := 2; n < 5; n++ {
				put(t, filepath.Join(dir, fmt.Sprintf("..%d/cds.yaml", n)), clusters(fmt.Sprint(n), "x", "a")+fmt.Sprintf("# %d\n", n))
				put(t, filepath.Join(dir, fmt.Sprintf("..%d/cds.yaml", n)), clusters(fmt.Sprint(n), fmt.Sprint("y", n), "a"))
				must(t, os.Symlink(fmt.Sprintf("..%d", n), filepath.Join(dir, "..tmp")))
				must(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
				must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..%d", n-1))))
				s.await("a", fmt.Sprintf("y%d %d", n, n))
			}
		})
	}
	t.Run("anything", func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		path := filepath.Join(dir, "cds.yaml")
		put(t, path, clusters("1", "x", "a"))
		tr := open(t, file.Config{Path: path, WatchedDirectory: other})
		watchClusters(t, tr, "a").await("a", "x 1")
		before := tr.Stats().Attempts
		put(t, filepath.Join(other, "whatever"), "")
		await(t, "another reading", func() bool { return tr.Stats().Attempts > before })
	})
}

// A file that is written to is read when the writer has finished, and one that
// changes without a word is found.
func TestUnannounced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cds.yaml")
	put(t, path, clusters("1", "x", "a"))
	tr := open(t, file.Config{Path: path})
	tr.Hasten(5*time.Millisecond, time.Second, time.Hour) // a busy machine pauses longer between two writes
	s := watchClusters(t, tr, "a")
	s.await("a", "x 1")
	lookedAgain(t, tr) // or else it might see a part of what is written now
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	for _, part := range strings.SplitAfter(clusters("2", "y", "a"), "\n") {
		_, err := f.WriteString(part)
		must(t, err)
		time.Sleep(5 * time.Millisecond)
	}
	must(t, f.Close())
	s.await("a", "y 2")
	if st := tr.Stats(); st.Rejected != 0 {
		t.Errorf("a part of the file was read: %+v", st)
	}

	lazy := open(t, file.Config{Path: path})
	lazy.Hasten(time.Millisecond, time.Hour, 20*time.Millisecond)
	s = watchClusters(t, lazy, "a")
	s.await("a", "y 2")
	lookedAgain(t, lazy)
	must(t, os.WriteFile(path, []byte(clusters("3", "quiet", "a")), 0o600))
	s.await("a", "quiet 3")
}

// lookedAgain waits for the second reading, which follows the first since something may
// have happened before its directory was watched.
func lookedAgain(t *testing.T, tr *file.Transport) {
	t.Helper()
	await(t, "the look after the watch began", func() bool { return tr.Stats().Attempts == 2 })
}

// Proves BS-27 with TestFormats, TestMove, TestWatchedDirectory and TestUseless:
// what is written in place is ignored, whatever announces it, and what is moved
// there is not.
func TestMovesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cds.yaml")
	put(t, path, clusters("1", "x", "a"))
	tr := open(t, file.Config{Path: path, MovesOnly: true})
	tr.Hasten(time.Millisecond, time.Millisecond, time.Millisecond)
	s := watchClusters(t, tr, "a")
	s.await("a", "x 1")
	lookedAgain(t, tr)
	must(t, os.WriteFile(path, []byte(clusters("2", "in place", "a")), 0o600))
	time.Sleep(50 * time.Millisecond)
	put(t, path, clusters("3", "moved", "a"))
	s.await("a", "moved 3")
	if got := s.all(); len(got) != 2 {
		t.Errorf("the watcher was told %v", got)
	}
}

// Proves XF-04: what is of no use is seen in statistics and the log, and what was
// there before stays.
func TestUseless(t *testing.T) {
	var log strings.Builder
	var mu sync.Mutex
	logger := slog.New(slog.NewTextHandler(locked{&log, &mu}, nil))
	path := filepath.Join(t.TempDir(), "cds.yaml")
	put(t, path, clusters("1", "x", "a"))
	tr := open(t, file.Config{Path: path, Logger: logger})
	s := watchClusters(t, tr, "a")
	s.await("a", "x 1")
	lookedAgain(t, tr) // or else the first file that follows might be read, and counted, twice
	await(t, "the success", func() bool { return tr.Stats().Successes == 1 })
	n := uint64(0)
	for _, tt := range []struct{ text, want string }{
		{"resources: [", "cds.yaml:1"},
		{"resources:\n- '@type': type.googleapis.com/no.such.Type\n", "no.such.Type"},
		{"type_url: " + xds.ListenerType, "is used for"},
		{clusters("2", "forbidden", "a"), "a is forbidden"},
		{strings.ReplaceAll(clusters("3", "x", "a"), " name: a", " connect_timeout: soon"), "soon"},
	} {
		put(t, path, tt.text)
		n++
		await(t, "the rejection of "+tt.text, func() bool { return tr.Stats().Rejected == n })
		if st := tr.Stats(); st.LastError == nil || !strings.Contains(st.LastError.Error(), tt.want) || st.Version != "1" || st.Successes != 1 {
			t.Errorf("the statistics are %+v, want an error about %q", st, tt.want)
		}
		await(t, "a line in the log, which follows the count, about "+tt.want, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool {
				return strings.Contains(line, tt.want) && strings.Contains(line, "path="+path)
			})
		})
	}
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700))
	await(t, "the failure", func() bool { return tr.Stats().Failures > 0 })
	if got := s.all(); len(got) != 1 {
		t.Errorf("the watcher was told %v", got)
	}
	must(t, os.Remove(path))
	put(t, path, clusters("4", "fine", "a"))
	s.await("a", "fine 4")
	await(t, "no error", func() bool { return tr.Stats().LastError == nil })
}

type locked struct {
	b  *strings.Builder
	mu *sync.Mutex
}

func (l locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// A name that is wanted later finds what the file holds already.
func TestLaterNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "eds.yaml")
	put(t, path, fmt.Sprintf("version_info: '1'\nresources:\n- {'@type': %[1]s, cluster_name: a}\n- {'@type': %[1]s, cluster_name: b}\n", xds.EndpointType))
	tr := open(t, file.Config{Path: path})
	src := source(t, tr, 100*time.Millisecond)
	show := func(*endpointv3.ClusterLoadAssignment) string { return "here" }
	watch(t, src, xdsclient.Endpoints(), show, "a").await("a", "here 1")
	watch(t, src, xdsclient.Endpoints(), show, "b").await("b", "here 1")
	watch(t, src, xdsclient.Endpoints(), show, "c").await("c", "missing")
	if st := tr.Stats(); st.Successes != 1 {
		t.Errorf("the statistics are %+v", st)
	}
}

// Proves XF-06: a rotated key is a changed secret.
func TestSecretFiles(t *testing.T) {
	dir, mount := t.TempDir(), t.TempDir()
	cert, key := filepath.Join(mount, "..1/cert.pem"), filepath.Join(dir, "key.pem")
	put(t, cert, "cert 1")
	put(t, key, "key 1")
	must(t, os.Symlink("..1", filepath.Join(mount, "..data")))
	path := filepath.Join(dir, "sds.yaml")
	put(t, path, fmt.Sprintf(`
version_info: "1"
resources:
- "@type": %s
  name: s
  tls_certificate:
    certificate_chain: {filename: %s}
    private_key: {filename: %s}
- "@type": type.googleapis.com/envoy.service.discovery.v3.Resource
  name: w
  resource:
    "@type": %s
    name: w
    generic_secret: {secret: {filename: %s}}
`, xds.SecretType, filepath.Join(mount, "..data/cert.pem"), key, xds.SecretType, key))
	tr := open(t, file.Config{Path: path})
	s := watch(t, source(t, tr, 0), xdsclient.Secrets(), func(s *tlsv3.Secret) string {
		if g := s.GetGenericSecret(); g != nil {
			return string(g.GetSecret().GetInlineBytes())
		}
		c := s.GetTlsCertificate()
		return string(c.GetCertificateChain().GetInlineBytes()) + "/" + string(c.GetPrivateKey().GetInlineBytes())
	}, "s", "w")
	s.await("s", "cert 1/key 1 1")
	s.await("w", "key 1 1")
	put(t, key, "key 2")
	s.await("s", "cert 1/key 2 1")
	s.await("w", "key 2 1")
	put(t, filepath.Join(mount, "..2/cert.pem"), "cert 2")
	must(t, os.Symlink("..2", filepath.Join(mount, "..tmp")))
	must(t, os.Rename(filepath.Join(mount, "..tmp"), filepath.Join(mount, "..data")))
	s.await("s", "cert 2/key 2 1")
	must(t, os.Remove(key))
	await(t, "the failure", func() bool { return tr.Stats().Failures > 0 }) // of the first look, or also of a second one
	put(t, key, "key 3")
	s.await("s", "cert 2/key 3 1")
}

// Who takes the secrets may want to read what they name by itself.
func TestKeepFileNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sds.yaml")
	put(t, path, fmt.Sprintf(`{resources: [{"@type": %s, name: s, tls_certificate: {private_key: {filename: %s}}}]}`, xds.SecretType, filepath.Join(dir, "no.pem")))
	s := watch(t, source(t, open(t, file.Config{Path: path, KeepFileNames: true}), 0), xdsclient.Secrets(), func(s *tlsv3.Secret) string {
		return filepath.Base(s.GetTlsCertificate().GetPrivateKey().GetFilename())
	}, "s")
	s.await("s", "no.pem ")
}

// Proves XF-07.
func TestCollection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lds.yaml")
	collection := func(version, prefix string) string {
		return fmt.Sprintf(`
version: %q
resource:
  "@type": type.googleapis.com/envoy.config.listener.v3.ListenerCollection
  entries:
  - inline_entry: {name: one, resource: {"@type": %[2]s, name: a, stat_prefix: %[3]q}}
  - inline_entry: {name: two, version: own, resource: {"@type": %[2]s, name: b, stat_prefix: %[3]q}}
`, version, xds.ListenerType, prefix)
	}
	put(t, path, collection("1", "x"))
	tr := open(t, file.Config{Path: path, Collection: true})
	s := watch(t, source(t, tr, 0), xdsclient.Listeners(), (*listenerv3.Listener).GetStatPrefix, xdsclient.Wildcard)
	s.await("a", "x 1")
	s.await("b", "x own")
	put(t, path, strings.Split(collection("2", "y"), "  - inline_entry: {name: two")[0])
	s.await("a", "y 2")
	s.await("b", "missing")
	for n, tt := range []struct{ text, want string }{
		{"resource: {'@type': type.googleapis.com/envoy.config.listener.v3.ListenerCollection, entries: [{locator: {scheme: XDSTP, id: x, resource_type: yy}}]}", "no locators"},
		{"resource: {'@type': " + xds.ListenerType + "}", "is no list collection"},
		{"version: '1'", "should hold a list collection"},
		{strings.ReplaceAll(collection("1", "x"), xds.ListenerType, xds.RouteType), "stat_prefix"},
		{"resource: {'@type': type.googleapis.com/envoy.config.listener.v3.ListenerCollection, entries: [{inline_entry: {name: a, resource: {'@type': " + xds.RouteType + "}}}]}", "is used for"},
	} {
		put(t, path, tt.text)
		await(t, "the rejection", func() bool { return tr.Stats().Rejected == uint64(n+1) })
		if err := tr.Stats().LastError; tt.want != "stat_prefix" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("the error is %v, want one about %q", err, tt.want)
		}
	}
	var _ *xdscorev3.CollectionEntry // linked in for the collection's entries
}

func TestCollectionPath(t *testing.T) {
	if got, err := file.CollectionPath("file:///etc/xds/a%20b.yaml"); err != nil || got != filepath.FromSlash("/etc/xds/a b.yaml") {
		t.Errorf("got %q %v", got, err)
	}
	for _, bad := range []string{"", "/etc/x.yaml", "xdstp://a/b", "file://host/x", "file:///", "file:x", "file:///a#b", "file:///a?b=c", "file:///%zz"} {
		if got, err := file.CollectionPath(bad); err == nil {
			t.Errorf("%q is taken for %q", bad, got)
		}
	}
}

// A stream ends with its context, and refuses what is not its own.
func TestEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cds.yaml")
	put(t, path, clusters("1", "x", "a"))
	ctx, cancel := context.WithCancel(t.Context())
	st, err := open(t, file.Config{Path: path}).Open(ctx, xdsclient.Opening{TypeURL: xds.ClusterType, Node: &corev3.Node{}})
	must(t, err)
	if err := st.Send(&client.Request{TypeURL: xds.RouteType}); err == nil {
		t.Error("a request for another type is accepted")
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if r, err := st.Recv(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", r, err)
	}
}
