//go:build interop

package living

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/internal/testpeer"
	"github.com/xebec-proxy/xebec/xds"
)

func startEnvoy(t testing.TB, bootstrap string) *proxy {
	t.Helper()
	return startProxy(t, "Envoy", bootstrap, envoyBinary)
}

// Envoy and the proxy have the same clusters, endpoints, routes and listeners in
// force, by their own accounts, when they get the same: from one server, or from
// the same files. They share the listeners' ports.
func TestSameAsEnvoy(t *testing.T) {
	t.Parallel()
	for _, v := range []variant{variants()[0], variants()[1], variants()[5]} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := setScene(t, v)
			port := 1
			if !v.files {
				s.server = newServer(t, s.dir.path)
				s.server.start(t)
				port = s.server.xds
			}
			bootstrap := v.bootstrap(t, s.dir.path, port)
			s.proxy = startXebec(t, bootstrap)
			other := startEnvoy(t, bootstrap)
			for _, p := range []*proxy{s.proxy, other} {
				p.live(t)
				p.converge(t, s.w)
			}
			n := min(changes(t, 8), 70)
			for range n {
				for range 3 {
					s.generate()
					s.write()
				}
				for _, p := range []*proxy{s.proxy, other} {
					p.converge(t, s.w)
				}
				same(t, s.proxy, other)
			}
			t.Logf("%d configurations are the same", n)
			s.load.end()
		})
	}
}

// generate makes a change that both understand, and that needs no order.
func (s *scene) generate() {
	switch s.w.random.IntN(6) {
	case 0:
		s.routes("main")
	case 1:
		s.routes("kept")
	case 2:
		s.changeCluster()
	case 3:
		s.changeUnused()
	case 4:
		s.changeEndpoints()
	default:
		s.changeChain()
	}
}

// same compares what two proxies have.
func same(t testing.TB, a, b *proxy) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, "both have the same", func() error {
		x, err := a.dump()
		if err != nil {
			return err
		}
		y, err := b.dump()
		if err != nil {
			return err
		}
		return x.differs(y)
	})
}

// differs compares two dumps, but for the times and versions beside the
// resources.
func (f *inForce) differs(with *inForce) error {
	var errs []error
	for _, k := range sortedKeys(f.held) {
		got := with.held[k]
		if got == nil {
			errs = append(errs, fmt.Errorf("only the first has %s %s", xds.Kind(k.Type), k.Name))
		} else if k.Type == xds.EndpointType && !equal(f.held[k], got) || k.Type != xds.EndpointType && !proto.Equal(f.held[k], got) {
			errs = append(errs, fmt.Errorf("%s %s differs:\n%v\n%v", xds.Kind(k.Type), k.Name, f.held[k], got))
		}
	}
	for _, k := range sortedKeys(with.held) {
		if f.held[k] == nil {
			errs = append(errs, fmt.Errorf("only the second has %s %s", xds.Kind(k.Type), k.Name))
		}
	}
	return errors.Join(errs...)
}

// A configuration of files that Envoy accepts works unchanged.
func TestEnvoysFiles(t *testing.T) {
	s := setScene(t, variants()[5])
	bootstrap := s.w.variant.bootstrap(t, s.dir.path, 1)
	for _, start := range []func(testing.TB, string) *proxy{startEnvoy, startXebec} {
		p := start(t, bootstrap)
		p.live(t)
		p.converge(t, s.w)
		client := &http.Client{Timeout: 10 * time.Second}
		if err := testpeer.Post(context.Background(), client, fmt.Sprintf("http://localhost:%d/", s.ports.main), 100); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		client.CloseIdleConnections()
		if n := p.Stats(t, "update_rejected$"); strings.Contains(fmt.Sprint(n), ":1") {
			t.Errorf("%s has rejected something: %v", p.Name, n)
		}
		p.Stop(t)
	}
	s.load.end()
}
