//go:build interop

package living

import (
	"crypto/tls"
	"crypto/x509"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/xds"
)

// ports of the listeners: main and secure are changed, the kept ones are not,
// and second comes and goes.
type ports struct{ main, secure, kept, keptSecure, second int }

// scene is a proxy under load whose configuration changes.
type scene struct {
	t         testing.TB
	w         *world
	load      *load
	dir       *directory
	server    *server // nil without one
	proxy     *proxy
	authority *testcert.Authority
	ports     ports
	to        targets
	mangled   map[string][]byte // written in the place of files
	names     int               // given so far
	extra     []string          // clusters and listeners that nobody uses
	second    bool
	kinds     map[string]int // changes by kind
	// restarts says that the server may restart at any time, and so forgets what
	// was good before.
	restarts bool
}

func seed(t testing.TB) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano()) //nolint:gosec // positive
	if text := os.Getenv("XEBEC_LOSS_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("XEBEC_LOSS_SEED: %v", err)
		}
	}
	t.Logf("XEBEC_LOSS_SEED=%d", n)
	return n
}

// changes is how many there are.
func changes(t testing.TB, unless int) int {
	t.Helper()
	text := os.Getenv("XEBEC_LOSS_CHANGES")
	if text == "" {
		return unless
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("XEBEC_LOSS_CHANGES: %v", err)
	}
	return n
}

// setScene makes everything but the processes.
func setScene(t testing.TB, v variant) *scene {
	t.Helper()
	a, err := testcert.NewAuthority("living")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	l := newLoad(t, &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12})
	dir := newDirectory(t)
	random := rand.New(rand.NewPCG(seed(t), 1)) //nolint:gosec // to be repeated
	s := &scene{
		t: t, load: l, dir: dir, authority: a, kinds: map[string]int{},
		w:     &world{variant: v, dir: dir.path, random: random, held: map[xds.Key]proto.Message{}, wrong: map[xds.Key]proto.Message{}},
		ports: ports{harness.FreePort(t), harness.FreePort(t), harness.FreePort(t), harness.FreePort(t), harness.FreePort(t)},
		to:    targets{plain: [2]string{"a", "b"}, rpc: [2]string{"rpc-a", "rpc-b"}, ws: "ws", long: "long"},
	}
	for range 4 {
		s.w.hosts = append(s.w.hosts, startBackend(t, l.release))
	}
	s.furnish()
	s.write()
	return s
}

// furnish makes the first configuration.
func (s *scene) furnish() {
	for _, r := range s.roles() {
		s.w.set(s.w.makeCluster(*r.name, r.protocol))
		s.w.set(s.w.assignment("svc-" + *r.name))
	}
	s.routes("main")
	s.routes("kept")
	s.certificate("cert")
	s.certificate("kept-cert")
	s.w.set(listenerAt("main", s.ports.main, s.w.chain("main", "main")))
	s.w.set(listenerAt("secure", s.ports.secure, s.w.overTLS("secure", "main", "cert")))
	s.w.set(listenerAt("kept", s.ports.kept, s.w.chain("kept", "kept")))
	s.w.set(listenerAt("kept-secure", s.ports.keptSecure, s.w.overTLS("kept-secure", "kept", "kept-cert")))
}

func (s *scene) routes(table string) { s.w.set(s.w.makeRoutes(table, &s.to)) }

// certificate makes a new one.
func (s *scene) certificate(name string) {
	c, k, err := s.authority.Issue(name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.w.set(secret(name, c, k))
}

// role is what a cluster is for.
type role struct {
	name     *string
	protocol protocol
}

func (s *scene) roles() []role {
	return []role{
		{&s.to.plain[0], anyProtocol},
		{&s.to.plain[1], anyProtocol},
		{&s.to.rpc[0], http2},
		{&s.to.rpc[1], http2},
		{&s.to.ws, http1},
		{&s.to.long, anyProtocol},
	}
}

// write puts the world into the directory.
func (s *scene) write() {
	files := s.w.variant.layout(s.w.written())
	maps.Copy(files, s.mangled)
	s.dir.sync(s.t, files)
}

// begin starts the server, the proxy and the load.
func (s *scene) begin() {
	s.t.Helper()
	port := 1
	if !s.w.variant.files {
		s.server = newServer(s.t, s.dir.path)
		s.server.ordered = s.w.variant.ordered && !s.w.variant.ads
		s.server.start(s.t)
		port = s.server.xds
	}
	s.proxy = startXebec(s.t, s.w.variant.bootstrap(s.t, s.dir.path, port))
	s.proxy.live(s.t)
	s.proxy.converge(s.t, s.w)
	s.traffic()
}

func (s *scene) traffic() {
	l := s.load
	s.t.Cleanup(l.end)
	l.began = time.Now()
	l.requests("HTTP/1", "http", s.ports.main, &http.Transport{})
	l.requests("HTTP/2", "http", s.ports.main, h2c())
	l.requests("HTTP/1, TLS", "https", s.ports.secure, l.overTLS(false))
	l.requests("HTTP/2, TLS", "https", s.ports.secure, l.overTLS(true))
	l.requests("new connections", "http", s.ports.main, &http.Transport{DisableKeepAlives: true})
	fresh := l.overTLS(false)
	fresh.DisableKeepAlives = true
	l.requests("new connections, TLS", "https", s.ports.secure, fresh)
	l.rpcs("gRPC", s.ports.main, false)
	l.rpcs("gRPC, TLS", s.ports.secure, true)
	l.oneLine("one connection", s.ports.kept, false)
	l.oneConnection("one connection, HTTP/2", "http", s.ports.kept, h2c())
	l.oneLine("one connection, TLS", s.ports.keptSecure, true)
	l.oneConnection("one connection, HTTP/2, TLS", "https", s.ports.keptSecure, l.overTLS(true))
	l.websocket("websocket", s.ports.kept)
	l.download("download", s.ports.kept, &http.Transport{})
	l.download("download, HTTP/2", s.ports.kept, h2c())
	l.download("download from a listener that changes", s.ports.main, &http.Transport{})
}

// converge waits until the proxy has the world.
func (s *scene) converge() {
	s.t.Helper()
	s.proxy.converge(s.t, s.w)
}

// finish ends the load and reports.
func (s *scene) finish(changes int) {
	s.t.Helper()
	s.converge()
	s.load.end()
	s.load.report(changes)
	s.t.Logf("changes: %v", s.kinds)
}
