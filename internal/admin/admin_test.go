package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

// fixedSource is a source in a fixed state.
type fixedSource struct {
	health   source.Health
	findings []validate.Finding
	files    []file.File
}

func (s fixedSource) Health() source.Health                   { return s.health }
func (s fixedSource) Findings() []validate.Finding            { return s.findings }
func (s fixedSource) Files() []file.File                      { return s.files }
func (s fixedSource) Explain(*xds.Node) (name, reason string) { return "default", "there is one group" }
func (s fixedSource) Reloads() (applied, refused uint64)      { return 3, 1 }

// fixture is a site over a real server.
type fixture struct {
	http.Handler
	server *xdsserver.Server
	events *Events
	ready  bool
}

func newFixture(t *testing.T, src fixedSource) *fixture {
	t.Helper()
	srv, err := xdsserver.New()
	if err != nil {
		t.Fatal(err)
	}
	loads, err := loadreport.New()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{server: srv, events: NewEvents()}
	f.Handler = New(Sources{
		Server: srv, Source: src, Dir: "xds", Events: f.events, Loads: loads, Reloads: src,
		Ready: func() bool { return f.ready }, Version: "1.2.3",
	})
	return f
}

func (f *fixture) apply(t *testing.T, messages ...proto.Message) {
	t.Helper()
	var set []*xds.Resource
	for _, m := range messages {
		r, err := xds.Marshal("r", m, xds.WithOrigin(xds.Position{File: "a.yaml", Line: 7, Column: 3}))
		if err != nil {
			t.Fatal(err)
		}
		set = append(set, r)
	}
	if err := f.server.Apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{"default": {Set: set}}}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) request(t *testing.T, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
	return w
}

func TestReadiness(t *testing.T) {
	f := newFixture(t, fixedSource{health: source.Health{Err: errors.New("a.yaml:1:1: no colon")}})
	if w := f.request(t, "GET", "/healthz"); w.Code != 200 {
		t.Errorf("healthz: %d", w.Code)
	}
	if w := f.request(t, "GET", "/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "a.yaml:1:1") {
		t.Errorf("before the load: %d %s", w.Code, w.Body)
	}
	f.apply(t)
	f.ready = true
	if w := f.request(t, "GET", "/readyz"); w.Code != 200 {
		t.Errorf("after the load: %d", w.Code)
	}
	f.ready = false
	if w := f.request(t, "GET", "/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "stopping") {
		t.Errorf("while stopping: %d %s", w.Code, w.Body)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	f := newFixture(t, fixedSource{})
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/api/v1/clients", "/api/v1/resources", "/api/v1/sources", "/api/v1/events", "/api/v1/loads"} {
		if w := f.request(t, "POST", path); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("POST %s: %d %q %s", path, w.Code, w.Header().Get("Allow"), w.Body)
		}
		if w := f.request(t, "GET", path); w.Code != 200 && path != "/readyz" {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/nothing", "/api/v1", "/api/v1/clients/7", "/api/v2/clients"} {
		if w := f.request(t, "GET", path); w.Code != 404 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/api/v1/clients/x", "/api/v1/events?after=x"} {
		if w := f.request(t, "GET", path); w.Code != 400 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := f.request(t, "GET", "/"); !strings.Contains(w.Body.String(), "1.2.3") || !strings.Contains(w.Body.String(), "/api/v1/sources") {
		t.Errorf("index: %s", w.Body)
	}
}

func read[T any](t *testing.T, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return v
}

// TestResources looks for secrets in what is shown, also in one inside another
// message.
// Partly proves XD-10.
func TestResources(t *testing.T) {
	const private = "-----BEGIN PRIVATE KEY-----"
	key := &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: private}}
	cert := &tlsv3.TlsCertificate{PrivateKey: key, Password: key}
	packed, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{cert}}})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, fixedSource{})
	f.apply(t,
		&tlsv3.Secret{Name: "r", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: cert}},
		&clusterv3.Cluster{Name: "r", AltStatName: "visible", TransportSocket: &corev3.TransportSocket{
			Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed},
		}},
	)
	type page struct{ Resources []resourceJSON }
	all := f.request(t, "GET", "/api/v1/resources?body=true")
	if got := read[page](t, all).Resources; len(got) != 2 || got[0].Origin.Line != 7 || len(got[0].Body) == 0 {
		t.Fatalf("resources: %s", all.Body)
	}
	if text := all.Body.String(); strings.Contains(text, private) || !strings.Contains(text, "visible") || strings.Count(text, "[redacted]") != 4 {
		t.Errorf("bodies: %s", text)
	}
	for query, want := range map[string]int{
		"type=cds": 1, "type=Secret": 1, "name=r": 2, "name=q": 0, "group=default": 2, "group=other": 0, "type=rds": 0,
	} {
		if got := read[page](t, f.request(t, "GET", "/api/v1/resources?"+query)).Resources; len(got) != want {
			t.Errorf("%s: %d resources, want %d", query, len(got), want)
		} else if want > 0 && got[0].Body != nil {
			t.Errorf("%s: a body that nobody asked for", query)
		}
	}
}

func TestSources(t *testing.T) {
	f := newFixture(t, fixedSource{
		health:   source.Health{Loaded: true, LastGood: time.Unix(1e9, 0), Err: errors.New("bad")},
		findings: []validate.Finding{{Severity: validate.Error, Code: "x", Message: "wrong", Pos: xds.Position{File: "a.yaml", Line: 2}}},
		files:    []file.File{{Path: "xds/a.yaml", Resources: 2, Err: errors.New("bad file")}},
	})
	got := read[struct{ Sources []sourceJSON }](t, f.request(t, "GET", "/api/v1/sources")).Sources
	if len(got) != 1 || got[0].Dir != "xds" || !got[0].Loaded || got[0].Error != "bad" || got[0].Findings[0].Pos.Line != 2 ||
		got[0].Files[0].Error != "bad file" || got[0].Files[0].Groups == nil {
		t.Errorf("%+v", got)
	}
}

func TestEventsForgetTheOldest(t *testing.T) {
	f := newFixture(t, fixedSource{})
	for range keptEvents + 10 {
		f.events.Add("changed", "something")
	}
	type page struct{ Events []Event }
	got := read[page](t, f.request(t, "GET", "/api/v1/events")).Events
	if len(got) != keptEvents || got[0].ID != 11 || got[len(got)-1].ID != keptEvents+10 {
		t.Errorf("%d events, from %d to %d", len(got), got[0].ID, got[len(got)-1].ID)
	}
	if got := read[page](t, f.request(t, "GET", "/api/v1/events?after=508")).Events; len(got) != 2 || got[0].ID != 509 {
		t.Errorf("after 508: %+v", got)
	}
}
