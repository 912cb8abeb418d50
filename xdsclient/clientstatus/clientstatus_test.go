package clientstatus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsclient/clientstatus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a scripted one: what a test sends is what comes.
type server struct {
	down error
	out  chan *client.Response
}

func newServer() *server { return &server{out: make(chan *client.Response)} }

func (s *server) Open(ctx context.Context, _ xdsclient.Opening) (xdsclient.Stream, error) {
	return &stream{ctx, s}, s.down
}

func (*server) Close() error { return nil }

type stream struct {
	ctx context.Context
	s   *server
}

func (*stream) Send(*client.Request) error { return nil }

func (st *stream) Recv() (*client.Response, error) {
	select {
	case r := <-st.s.out:
		return r, nil
	case <-st.ctx.Done():
		return nil, st.ctx.Err()
	}
}

// send delivers a response of clusters in the delta variant.
func (s *server) send(r *client.Response) {
	r.TypeURL, r.Nonce = xds.ClusterType, "n"
	time.Sleep(time.Second)
	s.out <- r
	synctest.Wait()
}

// body is a cluster; one whose alt_stat_name is "bad" is refused.
func body(t *testing.T, name, stat string) []byte {
	t.Helper()
	b, err := proto.Marshal(&clusterv3.Cluster{Name: name, AltStatName: stat})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func raw(t *testing.T, name, version, stat string) client.Raw {
	t.Helper()
	return client.Raw{Name: name, Version: version, TypeURL: xds.ClusterType, Body: body(t, name, stat), HasBody: true}
}

func clusters() xdsclient.Type[*clusterv3.Cluster] {
	t := xdsclient.Clusters()
	t.Validate = func(_, _ string, c *clusterv3.Cluster) error {
		if c.GetAltStatName() == "bad" {
			return errors.New("it is bad")
		}
		return nil
	}
	return t
}

// watching is a source that watches names, and its server.
func watching(t *testing.T, p xdsclient.Policy, names ...string) (*xdsclient.Source, *server) {
	t.Helper()
	f := newServer()
	s, err := xdsclient.NewSource(t.Context(), xdsclient.Config{
		Node: &corev3.Node{Id: "me"}, Delta: true, Servers: []xdsclient.Server{{Name: "main", Transport: f, Policy: p}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		xdsclient.Watch(s, clusters(), n, xdsclient.Funcs[*clusterv3.Cluster]{})
	}
	return s, f
}

func end(t *testing.T, s *xdsclient.Source) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// one is the status of the only resource.
func one(t *testing.T, s *xdsclient.Source) *statusv3.ClientConfig_GenericXdsConfig {
	t.Helper()
	list := clientstatus.OfSource("scope", s, clientstatus.Options{}).GetGenericXdsConfigs()
	if len(list) != 1 {
		t.Fatalf("%d resources: %v", len(list), list)
	}
	if list[0].GetConfigStatus() != 0 {
		t.Errorf("config_status is a server's: %v", list[0])
	}
	return list[0]
}

// Proves XD-04, GC-68: each state, with what was accepted last, as its bytes
// came. Proves XD-03: config_status is left to servers.
func TestStates(t *testing.T) {
	good := func(t *testing.T, s *server) {
		s.send(&client.Response{Resources: []client.Raw{raw(t, "c", "1", "a")}})
	}
	wrong := func(t *testing.T, s *server) {
		s.send(&client.Response{Resources: []client.Raw{raw(t, "c", "2", "bad")}})
	}
	removed := func(_ *testing.T, s *server) { s.send(&client.Response{Removed: []string{"c"}}) }
	refused := func(_ *testing.T, s *server) {
		s.send(&client.Response{Errors: []client.ResourceError{{Name: "c", Status: client.Status{Code: 13, Message: "broken"}}}})
	}
	late := func(*testing.T, *server) { time.Sleep(31 * time.Second); synctest.Wait() }
	type step func(*testing.T, *server)
	keep := xdsclient.Policy{KeepDeleted: true}
	for _, c := range []struct {
		name   string
		policy xdsclient.Policy
		steps  []step
		want   string // state
		held   bool
		detail string // of the error
	}{
		{"nothing yet", xdsclient.Policy{}, nil, "REQUESTED", false, ""},
		{"accepted", xdsclient.Policy{}, []step{good}, "ACKED", true, ""},
		{"refused", xdsclient.Policy{}, []step{wrong}, "NACKED", false, "it is bad"},
		{"refused after it was accepted", xdsclient.Policy{}, []step{good, wrong}, "NACKED", true, "it is bad"},
		{"good again", xdsclient.Policy{}, []step{good, wrong, good}, "ACKED", true, ""},
		{"removed", xdsclient.Policy{}, []step{good, removed}, "DOES_NOT_EXIST", false, "does not exist"},
		{"removed and kept", keep, []step{good, removed}, "DOES_NOT_EXIST", true, "does not exist"},
		{"silence", xdsclient.Policy{}, []step{late}, "DOES_NOT_EXIST", false, "not sent within 15s"},
		{"transient silence", xdsclient.Policy{TimeoutIsTransient: true}, []step{late}, "TIMEOUT", false, "not sent within 30s"},
		{"an error", xdsclient.Policy{}, []step{refused}, "RECEIVED_ERROR", false, "broken"},
		{"an error later", xdsclient.Policy{}, []step{good, refused}, "RECEIVED_ERROR", true, "broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f := watching(t, c.policy, "c")
				defer end(t, s)
				for _, do := range c.steps {
					do(t, f)
				}
				synctest.Wait()
				g := one(t, s)
				if g.GetClientStatus().String() != c.want || g.GetName() != "c" || g.GetTypeUrl() != xds.ClusterType || g.GetIsStaticResource() {
					t.Errorf("%v, want %s", g, c.want)
				}
				if c.held != (g.GetXdsConfig() != nil) || c.held != (g.GetVersionInfo() == "1") || c.held != (g.GetLastUpdated() != nil) {
					t.Errorf("held: %v", g)
				}
				if c.held && string(g.GetXdsConfig().GetValue()) != string(body(t, "c", "a")) {
					t.Errorf("other bytes: %v", g.GetXdsConfig())
				}
				if e := g.GetErrorState(); (c.detail != "") != (e != nil) || !strings.Contains(e.GetDetails(), c.detail) {
					t.Errorf("error_state %v, want %q", e, c.detail)
				}
			})
		})
	}
}

// Proves XD-05: what a rejection leaves behind, until the next good update; a
// second one replaces the first.
func TestErrorState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := watching(t, xdsclient.Policy{}, "c")
		defer end(t, s)
		f.send(&client.Response{Resources: []client.Raw{raw(t, "c", "1", "a")}})
		accepted := one(t, s).GetLastUpdated()
		for _, version := range []string{"2", "3"} {
			f.send(&client.Response{Resources: []client.Raw{raw(t, "c", version, "bad")}})
			want := &adminv3.UpdateFailureState{
				Details:             `Cluster "c": the resource is not valid: it is bad (server "main", node "me")`,
				LastUpdateAttempt:   timestamppb.Now(),
				VersionInfo:         version,
				FailedConfiguration: &anypb.Any{TypeUrl: xds.ClusterType, Value: body(t, "c", "bad")},
			}
			g := one(t, s)
			if diff := cmp.Diff(want, g.GetErrorState(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
			if g.GetVersionInfo() != "1" || !proto.Equal(g.GetLastUpdated(), accepted) {
				t.Errorf("what is in force: %v", g)
			}
		}
		f.send(&client.Response{Resources: []client.Raw{raw(t, "c", "4", "b")}})
		if g := one(t, s); g.GetErrorState() != nil || g.GetVersionInfo() != "4" || !proto.Equal(g.GetLastUpdated(), timestamppb.Now()) {
			t.Errorf("after the next good one: %v", g)
		}
	})
}

// A server that is away is told of what has not come, the wildcard among it, and
// not of what is there.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := watching(t, xdsclient.Policy{}, xdsclient.Wildcard)
		defer end(t, s)
		f.send(&client.Response{Resources: []client.Raw{raw(t, "c", "1", "a")}})
		if g := one(t, s); g.GetName() != "c" || g.GetClientStatus() != adminv3.ClientResourceStatus_ACKED {
			t.Errorf("%v", g)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newServer()
		f.down = errors.New("nobody is there")
		s, err := xdsclient.NewSource(t.Context(), xdsclient.Config{Servers: []xdsclient.Server{{Name: "main", Transport: f}}})
		if err != nil {
			t.Fatal(err)
		}
		defer end(t, s)
		xdsclient.Watch(s, clusters(), xdsclient.Wildcard, xdsclient.Funcs[*clusterv3.Cluster]{})
		synctest.Wait()
		g := one(t, s)
		if g.GetName() != "*" || g.GetClientStatus() != adminv3.ClientResourceStatus_REQUESTED || !strings.Contains(g.GetErrorState().GetDetails(), "nobody is there") {
			t.Errorf("%v", g)
		}
	})
}

// Proves XD-06: two sources in their scopes, each with the node it sent, and the
// bootstrap's resources marked. Proves XD-07: without contents. Proves XD-10: a key is
// not shown, nor what cannot be looked into.
func TestScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f := watching(t, xdsclient.Policy{}, "c")
		defer end(t, a)
		b, _ := watching(t, xdsclient.Policy{}, "d")
		defer end(t, b)
		synctest.Wait()
		f.send(&client.Response{Resources: []client.Raw{raw(t, "c", "1", "a")}})
		for _, o := range []clientstatus.Options{{}, {ExcludeContents: true}} {
			one, two := clientstatus.OfSource("one", a, o), clientstatus.OfSource("two", b, o)
			if one.GetClientScope() != "one" || one.GetGenericXdsConfigs()[0].GetName() != "c" || two.GetGenericXdsConfigs()[0].GetName() != "d" || !proto.Equal(one.GetNode(), a.Node()) || one.GetNode().GetId() != "me" {
				t.Errorf("%v, %v", one, two)
			}
			if got := one.GetGenericXdsConfigs()[0].GetXdsConfig() != nil; got == o.ExcludeContents {
				t.Errorf("%+v: contents %t", o, got)
			}
			static, err := clientstatus.OfBootstrap("files", a.Node(), []clientstatus.Resource{{Name: "s", Message: secret()}}, o)
			if err != nil {
				t.Fatal(err)
			}
			g := static.GetGenericXdsConfigs()[0]
			if static.GetClientScope() != "files" || !g.GetIsStaticResource() || g.GetName() != "s" || g.GetTypeUrl() != xds.SecretType {
				t.Errorf("%v", static)
			}
			if text := string(g.GetXdsConfig().GetValue()); strings.Contains(text, "hidden") || strings.Contains(text, "public") == o.ExcludeContents {
				t.Errorf("%+v: %q", o, text)
			}
		}
	})
}

func secret() *tlsv3.Secret {
	inline := func(s string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
	}
	return &tlsv3.Secret{Name: "s", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline("public"), PrivateKey: inline("hidden"),
	}}}
}
