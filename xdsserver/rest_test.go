package xdsserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// post sends a body and returns what comes back.
func (h *harness) post(path, body string) *httptest.ResponseRecorder {
	h.t.Helper()
	return h.do(http.MethodPost, path, body, "application/json")
}

func (h *harness) do(method, path, body, contentType string) *httptest.ResponseRecorder {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.srv.RESTHandler().ServeHTTP(w, r)
	return w
}

// polled reads an answer of 200.
func polled(t *testing.T, w *httptest.ResponseRecorder) *discoveryv3.DiscoveryResponse {
	t.Helper()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
	r := &discoveryv3.DiscoveryResponse{}
	if err := protojson.Unmarshal(w.Body.Bytes(), r); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return r
}

func notModified(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("got %d %q, want 304 and nothing", w.Code, w.Body)
	}
}

func restCluster(t testing.TB, name, statName string) *xds.Resource {
	t.Helper()
	return marshalled(t, name, &clusterv3.Cluster{Name: name, AltStatName: statName})
}

func marshalled(t testing.TB, name string, m proto.Message) *xds.Resource {
	t.Helper()
	r, err := xds.Marshal(name, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func assignment(t testing.TB, name string) *xds.Resource {
	t.Helper()
	return marshalled(t, name, &endpointv3.ClusterLoadAssignment{ClusterName: name})
}

func names(t *testing.T, r *discoveryv3.DiscoveryResponse) []string {
	t.Helper()
	var list []string
	for _, a := range r.GetResources() {
		m, err := a.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		f := m.ProtoReflect().Descriptor().Fields()
		if n := f.ByName("name"); n != nil {
			list = append(list, m.ProtoReflect().Get(n).String())
			continue
		}
		list = append(list, m.ProtoReflect().Get(f.ByName("cluster_name")).String())
	}
	slices.Sort(list)
	return list
}

// Proves XR-05 and XR-07. Partly proves XR-01; v2 has a test of its own.
func TestRESTPaths(t *testing.T) {
	serving(t, nil, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		for part, typeURL := range map[string]string{
			"listeners": xds.ListenerType, "routes": xds.RouteType, "scoped-routes": xds.ScopedRouteType, "clusters": xds.ClusterType,
			"endpoints": xds.EndpointType, "secrets": xds.SecretType, "runtime": xds.RuntimeType, "extension_configs": xds.ExtensionConfigType,
		} {
			path := "/v3/discovery:" + part
			if got := polled(t, h.post(path, `{"node":{"id":"a"}}`)); got.GetTypeUrl() != typeURL || got.GetVersionInfo() == "" || got.GetNonce() == "" {
				t.Errorf("%s: %v", path, got)
			}
			polled(t, h.post(path, `{"type_url":"`+typeURL+`"}`))
			if w := h.post(path, `{"type_url":"type.googleapis.com/x.Y"}`); w.Code != http.StatusBadRequest {
				t.Errorf("%s for another type: %d %s", path, w.Code, w.Body)
			}
		}
		for path, why := range map[string]string{
			"/v2/discovery:extension_configs": "ECDS", "/v2/discovery:aggregated_resources": "ADS", "/v3/discovery:aggregated_resources": "ADS", "/v3/discovery:delta_clusters": "delta",
			"/v3/discovery:virtual_hosts": "VHDS", "/v3/discovery:locality_endpoints": "LEDS", "/": "nothing at this path",
		} {
			if w := h.post(path, "{}"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), why) {
				t.Errorf("%s: %d %s, want 404 that says %q", path, w.Code, w.Body, why)
			}
		}
	})
}

// Proves XR-02: both spellings, unknown fields, and Any with @type.
func TestRESTEncoding(t *testing.T) {
	serving(t, []xdsserver.Option{xdsserver.WithIdentifier("here"), xdsserver.WithGroups(byCluster)}, func(h *harness) {
		h.setIn("g", restCluster(t, "a", "x"))
		for _, body := range []string{
			`{"node":{"id":"n","cluster":"g","user_agent_name":"envoy","brand_new":1},"resource_names":[],"version_info":"","new_field":{"a":[1]}}`,
			`{"node":{"id":"n","cluster":"g","userAgentName":"envoy"},"resourceNames":[],"versionInfo":""}`,
		} {
			w := h.post("/v3/discovery:clusters", body)
			got := polled(t, w)
			if names(t, got)[0] != "a" || got.GetControlPlane().GetIdentifier() != "here" {
				t.Errorf("got %v", got)
			}
			var plain struct {
				VersionInfo string           `json:"versionInfo"`
				Resources   []map[string]any `json:"resources"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &plain); err != nil {
				t.Fatal(err)
			}
			if plain.Resources[0]["@type"] != xds.ClusterType || plain.Resources[0]["altStatName"] != "x" || plain.VersionInfo != got.GetVersionInfo() {
				t.Errorf("the JSON is %s", w.Body)
			}
		}
	})
}

// Proves XR-03: what is held is not sent again, for a wildcard and for names;
// a name more is a change although the resources are the same.
func TestRESTNotModified(t *testing.T) {
	serving(t, nil, func(h *harness) {
		h.set(restCluster(t, "a", ""), assignment(t, "a"), assignment(t, "b"))
		first := polled(t, h.post("/v3/discovery:clusters", `{"node":{"id":"n"}}`))
		held := `{"node":{"id":"n"},"version_info":"` + first.GetVersionInfo() + `"}`
		notModified(t, h.post("/v3/discovery:clusters", held))
		h.set(assignment(t, "c"))
		notModified(t, h.post("/v3/discovery:clusters", held))
		h.set(restCluster(t, "a", "changed"))
		if next := polled(t, h.post("/v3/discovery:clusters", held)); next.GetVersionInfo() == first.GetVersionInfo() {
			t.Error("the version is the same after a change")
		}

		one := polled(t, h.post("/v3/discovery:endpoints", `{"resource_names":["a"]}`)).GetVersionInfo()
		notModified(t, h.post("/v3/discovery:endpoints", `{"resource_names":["a"],"version_info":"`+one+`"}`))
		h.set(assignment(t, "z"))
		notModified(t, h.post("/v3/discovery:endpoints", `{"resource_names":["a"],"version_info":"`+one+`"}`))
		two := polled(t, h.post("/v3/discovery:endpoints", `{"resource_names":["a","b"],"version_info":"`+one+`"}`))
		if got := names(t, two); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("a further name brings %v", got)
		}
		notModified(t, h.post("/v3/discovery:endpoints", `{"resource_names":["b","a"],"version_info":"`+two.GetVersionInfo()+`"}`))
		none := polled(t, h.post("/v3/discovery:endpoints", `{"resource_names":["q"]}`)).GetVersionInfo()
		more := polled(t, h.post("/v3/discovery:endpoints", `{"resource_names":["r"],"version_info":"`+none+`"}`))
		if len(more.GetResources()) != 0 {
			t.Errorf("a missing name brings %v", more)
		}
	})
}

// Proves XR-04: a poll is held until there is a change, and no longer than it may.
func TestRESTHold(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithRESTHold(800 * time.Millisecond)}, func(h *harness) {
		h.set(restCluster(t, "a", ""))
		first := polled(t, h.post("/v3/discovery:clusters", `{"node":{"id":"n"}}`))
		held := `{"node":{"id":"n"},"version_info":"` + first.GetVersionInfo() + `"}`
		begun := time.Now()
		notModified(t, h.post("/v3/discovery:clusters", held))
		if d := time.Since(begun); d != 800*time.Millisecond {
			t.Errorf("without a change it was held for %s", d)
		}
		got := make(chan *httptest.ResponseRecorder, 1)
		begun = time.Now()
		go func() { got <- h.post("/v3/discovery:clusters", held) }()
		synctest.Wait()
		h.set(assignment(t, "a")) // a change of something else
		synctest.Wait()
		select {
		case w := <-got:
			t.Errorf("a change of another type ended the hold: %d", w.Code)
		default:
		}
		h.set(restCluster(t, "a", "changed"))
		polled(t, <-got)
		if d := time.Since(begun); d != 0 {
			t.Errorf("a change came after %s", d)
		}

		ctx, cancel := context.WithCancel(h.ctx)
		done := make(chan int, 1)
		now := h.post("/v3/discovery:clusters", `{"node":{"id":"n"}}`)
		go func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v3/discovery:clusters",
				strings.NewReader(`{"version_info":"`+polled(t, now).GetVersionInfo()+`"}`))
			w := httptest.NewRecorder()
			h.srv.RESTHandler().ServeHTTP(w, r)
			done <- w.Code
		}()
		synctest.Wait()
		if err := h.srv.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if code := <-done; code != http.StatusNotModified {
			t.Errorf("a hold ends with %d when the server drains", code)
		}
		cancel()
		if w := h.post("/v3/discovery:clusters", held); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("while draining: %d %s", w.Code, w.Body)
		}
	})
	for _, d := range []time.Duration{-1, xdsserver.MaxRESTHold + 1} {
		if _, err := xdsserver.New(xdsserver.WithRESTHold(d)); err == nil {
			t.Errorf("a hold of %s is accepted", d)
		}
	}
}

// Proves XR-06: the full set in every answer, and what no names mean.
func TestRESTFullSet(t *testing.T) {
	all := []*xds.Resource{restCluster(t, "a", ""), restCluster(t, "b", ""), assignment(t, "a"), assignment(t, "b")}
	serving(t, nil, func(h *harness) {
		h.set(all...)
		first := polled(t, h.post("/v3/discovery:endpoints", `{"resource_names":["a","b"]}`))
		h.set(marshalled(t, "b", &endpointv3.ClusterLoadAssignment{ClusterName: "b", Policy: &endpointv3.ClusterLoadAssignment_Policy{}}))
		next := polled(t, h.post("/v3/discovery:endpoints", `{"resource_names":["a","b"],"version_info":"`+first.GetVersionInfo()+`"}`))
		if got := names(t, next); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("after a change of one: %v", got)
		}
		if got := names(t, polled(t, h.post("/v3/discovery:clusters", `{}`))); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("all clusters: %v", got)
		}
		if got := names(t, polled(t, h.post("/v3/discovery:clusters", `{"resource_names":["b"]}`))); !slices.Equal(got, []string{"b"}) {
			t.Errorf("one cluster: %v", got)
		}
		if got := names(t, polled(t, h.post("/v3/discovery:endpoints", `{}`))); len(got) != 0 {
			t.Errorf("endpoints of nothing: %v", got)
		}
	})
	serving(t, []xdsserver.Option{xdsserver.WithRESTEmptyMeansAll(true)}, func(h *harness) {
		h.set(all...)
		first := polled(t, h.post("/v3/discovery:endpoints", `{}`))
		if got := names(t, first); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("all endpoints: %v", got)
		}
		notModified(t, h.post("/v3/discovery:endpoints", `{"version_info":"`+first.GetVersionInfo()+`"}`))
		if got := names(t, polled(t, h.post("/v3/discovery:endpoints", `{"resource_names":["a"]}`))); !slices.Equal(got, []string{"a"}) {
			t.Errorf("one assignment: %v", got)
		}
	})
}

// Proves XR-08.
func TestRESTErrors(t *testing.T) {
	const clusters = "/v3/discovery:clusters"
	opts := []xdsserver.Option{
		xdsserver.WithRequireNode(true), xdsserver.WithLimits(xdsserver.Limits{MaxRequestBytes: 300, MaxNames: 2}),
		xdsserver.WithAuth(func(ctx context.Context, c xdsserver.Call) error {
			md, _ := metadata.FromIncomingContext(ctx)
			p, _ := peer.FromContext(ctx)
			switch {
			case c.Method != "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters" || p == nil || c.Peer.String() != "192.0.2.1:1234":
				return errors.New("this is not what the hook was told before")
			case len(md.Get("x-user")) == 0 && c.Node == nil:
				return status.Error(codes.Unauthenticated, "who are you?")
			case c.Node != nil && c.Node.ID == "evil":
				return errors.New("not you")
			}
			return nil
		}),
	}
	serving(t, opts, func(h *harness) {
		ask := func(method, path, body, user string, header ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(h.ctx, method, path, strings.NewReader(body))
			if user != "" {
				r.Header.Set("X-User", user)
			}
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			w := httptest.NewRecorder()
			h.srv.RESTHandler().ServeHTTP(w, r)
			return w
		}
		if w := ask(http.MethodPost, clusters, `{"node":{"id":"n"}}`, "u"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("before the load: %d %s", w.Code, w.Body)
		}
		h.set(restCluster(t, "a", ""))
		tests := map[string]struct {
			got  *httptest.ResponseRecorder
			want int
		}{
			"good":         {ask(http.MethodPost, clusters, `{"node":{"id":"n"}}`, "u"), http.StatusOK},
			"no JSON":      {ask(http.MethodPost, clusters, `{"node"`, "u"), http.StatusBadRequest},
			"no body":      {ask(http.MethodPost, clusters, ``, "u"), http.StatusBadRequest},
			"a list":       {ask(http.MethodPost, clusters, `[]`, "u"), http.StatusBadRequest},
			"no node":      {ask(http.MethodPost, clusters, `{}`, "u"), http.StatusBadRequest},
			"locators":     {ask(http.MethodPost, clusters, `{"node":{"id":"n"},"resource_locators":[{"name":"x","dynamic_parameters":{"a":"b"}}]}`, "u"), http.StatusBadRequest},
			"GET":          {ask(http.MethodGet, clusters, "", "u"), http.StatusMethodNotAllowed},
			"PUT":          {ask(http.MethodPut, clusters, "{}", "u"), http.StatusMethodNotAllowed},
			"large":        {ask(http.MethodPost, clusters, `{"node":{"id":"`+strings.Repeat("n", 300)+`"}}`, "u"), http.StatusRequestEntityTooLarge},
			"many names":   {ask(http.MethodPost, clusters, `{"node":{"id":"n"},"resource_names":["a","b","c"]}`, "u"), http.StatusRequestEntityTooLarge},
			"unknown path": {ask(http.MethodPost, "/v3/discovery:cats", "{}", "u"), http.StatusNotFound},
			"nobody":       {ask(http.MethodPost, clusters, `{"node":{"id":"n"}}`, ""), http.StatusUnauthorized},
			"forbidden":    {ask(http.MethodPost, clusters, `{"node":{"id":"evil"}}`, "u"), http.StatusForbidden},
			"form":         {ask(http.MethodPost, clusters, `{}`, "u", "Content-Type", "application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType},
			"gzip":         {ask(http.MethodPost, clusters, `{}`, "u", "Content-Encoding", "gzip"), http.StatusUnsupportedMediaType},
		}
		for name, tt := range tests {
			var body struct {
				Code    int
				Message string
			}
			if err := json.Unmarshal(tt.got.Body.Bytes(), &body); err != nil {
				t.Errorf("%s: the body is %q", name, tt.got.Body)
			}
			if tt.got.Code != tt.want || tt.want != http.StatusOK && (body.Message == "" || body.Code == 0) {
				t.Errorf("%s: %d %s, want %d", name, tt.got.Code, tt.got.Body, tt.want)
			}
		}
		if got := ask(http.MethodGet, clusters, "", "u").Header().Get("Allow"); got != http.MethodPost {
			t.Errorf("allowed is %q", got)
		}
	})
}

// Proves XR-09: Envoy polls on with the version it has and is given the content
// again; a client that says why it has rejected it is not, until it changes.
func TestRESTRejection(t *testing.T) {
	var log bytes.Buffer
	serving(t, []xdsserver.Option{xdsserver.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))}, func(h *harness) {
		const clusters = "/v3/discovery:clusters"
		h.set(restCluster(t, "a", ""), restCluster(t, "b", ""))
		good := polled(t, h.post(clusters, `{"node":{"id":"n"}}`)).GetVersionInfo()
		h.set(restCluster(t, "a", "bad"))
		silent := `{"node":{"id":"n"},"version_info":"` + good + `"}`
		bad := polled(t, h.post(clusters, silent))
		if again := polled(t, h.post(clusters, silent)); again.GetVersionInfo() != bad.GetVersionInfo() || len(again.GetResources()) != 2 {
			t.Errorf("a client that says nothing is given %v", again)
		}
		reject := `{"node":{"id":"n"},"version_info":"` + good + `","response_nonce":"` + bad.GetNonce() + `","error_detail":{"code":3,"message":"I dislike a"}}`
		for range 3 {
			notModified(t, h.post(clusters, reject))
		}
		notModified(t, h.post(clusters, silent)) // it has said so
		polled(t, h.post(clusters, `{"node":{"id":"n"}}`))
		notModified(t, h.post(clusters, reject))
		st := h.srv.Clients()[0]
		if st.Variant != "rest" || st.Aggregated || st.Group != xdsserver.DefaultGroup || st.Peer == "" || len(st.Types) != 1 {
			t.Fatalf("the client is %+v", st)
		}
		ty := st.Types[0]
		if ty.State != xdsserver.Rejected || ty.Nack == nil || ty.Nack.Message != "I dislike a" || ty.Nack.Version != bad.GetVersionInfo() {
			t.Errorf("the status is %+v", ty)
		}
		if len(ty.Nack.Resources) != 1 || ty.Nack.Resources[0].Name != "a" {
			t.Errorf("it rejected %+v", ty.Nack.Resources)
		}
		if got := strings.Count(log.String(), "a client rejected resources"); got == 0 || !strings.Contains(log.String(), "variant=rest") {
			t.Errorf("the log is %s", &log)
		}
		h.set(restCluster(t, "a", "better"))
		better := polled(t, h.post(clusters, reject))
		notModified(t, h.post(clusters, `{"node":{"id":"n"},"version_info":"`+better.GetVersionInfo()+`"}`))
		if ty = h.srv.Clients()[0].Types[0]; ty.State != xdsserver.Synced || ty.Nack != nil || ty.AckedVersion != better.GetVersionInfo() {
			t.Errorf("after something better: %+v", ty)
		}
	})
}

// A server that was restarted is told of a rejection from before.
func TestRESTRejectionBeforeRestart(t *testing.T) {
	var nonce string
	serving(t, nil, func(h *harness) {
		h.set(restCluster(t, "a", "bad"))
		nonce = polled(t, h.post("/v3/discovery:clusters", `{"node":{"id":"n"}}`)).GetNonce()
	})
	serving(t, nil, func(h *harness) {
		h.set(restCluster(t, "a", "bad"))
		notModified(t, h.post("/v3/discovery:clusters", `{"node":{"id":"n"},"response_nonce":"`+nonce+`","error_detail":{"message":"no"}}`))
		if ty := h.srv.Clients()[0].Types[0]; ty.State != xdsserver.Rejected || ty.Nacks != 1 {
			t.Errorf("the status is %+v", ty)
		}
	})
}

// Clients that poll are seen with what they have, and forgotten when they stay away.
func TestRESTStatus(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithLimits(xdsserver.Limits{RequestsPerSecond: 1, RequestBurst: 2})}, func(h *harness) {
		h.set(assignment(t, "a"), assignment(t, "b"))
		poll := func(names, version string) *httptest.ResponseRecorder {
			return h.post("/v3/discovery:endpoints", `{"node":{"id":"n"},"resource_names":[`+names+`],"version_info":"`+version+`"}`)
		}
		v := polled(t, poll(`"a"`, "")).GetVersionInfo()
		polled(t, poll(`"b"`, ""))
		state := func() (out []string) {
			for _, c := range h.srv.Clients() {
				for _, ty := range c.Types {
					for _, r := range h.srv.Resources(c.ID, ty.TypeURL) {
						out = append(out, c.Node.ID+" "+r.Name+" "+r.State)
					}
				}
			}
			return out
		}
		if got := state(); !slices.Equal(got, []string{"n a STALE", "n b STALE"}) {
			t.Errorf("first: %v", got)
		}
		notModified(t, poll(`"a"`, v))
		if got := state(); !slices.Equal(got, []string{"n a SYNCED", "n b STALE"}) {
			t.Errorf("then: %v", got)
		}
		h.set(marshalled(t, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a", Policy: &endpointv3.ClusterLoadAssignment_Policy{}}))
		if got := state(); !slices.Equal(got, []string{"n a STALE", "n b STALE"}) {
			t.Errorf("after a change: %v", got)
		}
		if w := poll(`"a"`, v); w.Code != http.StatusTooManyRequests {
			t.Errorf("the third poll in a second: %d", w.Code)
		}
		stats := h.srv.Stats().Types
		if len(stats) != 1 || stats[0].Variant != "rest" || stats[0].Requests != 3 || stats[0].Responses != 2 || stats[0].Acks != 1 || stats[0].Subscriptions != 2 {
			t.Errorf("the statistics are %+v", stats)
		}
		time.Sleep(59 * time.Second)
		if got := len(h.srv.Clients()); got != 2 {
			t.Errorf("%d clients after 59 s", got)
		}
		polled(t, poll(`"a"`, v)) // an interval of 59 s
		time.Sleep(2 * time.Minute)
		if got := len(h.srv.Clients()); got != 1 {
			t.Errorf("%d clients after 2 minutes", got)
		}
		time.Sleep(time.Minute)
		if left := len(h.srv.Clients()); left != 0 || h.srv.Held().Nodes != 0 {
			t.Errorf("%d clients and %+v are kept", left, h.srv.Held())
		}
		time.Sleep(10 * time.Second) // what is kept of encodings
	})
}

// A node that moves to another group gets what that has.
func TestRESTGroups(t *testing.T) {
	serving(t, []xdsserver.Option{xdsserver.WithGroups(byCluster)}, func(h *harness) {
		h.apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{
			"one": {Set: []*xds.Resource{restCluster(t, "a", "")}}, "two": {Set: []*xds.Resource{restCluster(t, "b", "")}},
		}})
		const body = `{"node":{"id":"n","cluster":"one"},"version_info":"`
		v := polled(t, h.post("/v3/discovery:clusters", body+`"}`)).GetVersionInfo()
		notModified(t, h.post("/v3/discovery:clusters", body+v+`"}`))
		h.apply(snapshot.Batch{GroupOf: func(*xds.Node) string { return "two" }})
		if got := names(t, polled(t, h.post("/v3/discovery:clusters", body+v+`"}`))); !slices.Equal(got, []string{"b"}) {
			t.Errorf("in the other group: %v", got)
		}
		if got := h.srv.Clients()[0].Group; got != "two" {
			t.Errorf("the client is in %q", got)
		}
	})
}

// Partly proves XR-12: CSDS as a call, and further calls as given.
func TestRESTCalls(t *testing.T) {
	serving(t, nil, func(h *harness) {
		h.set(restCluster(t, "a", ""))
		polled(t, h.post("/v3/discovery:clusters", `{"node":{"id":"n"}}`))
		w := h.post("/v3/discovery:client_status", `{"node_matchers":[{"node_id":{"exact":"n"}}]}`)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "variant=rest") || !strings.Contains(w.Body.String(), `"STALE"`) {
			t.Errorf("client status: %d %s", w.Code, w.Body)
		}
		if w = h.post("/v3/discovery:client_status", `{"node_matchers":[{"node_id":{}}]}`); w.Code != http.StatusBadRequest {
			t.Errorf("a bad matcher: %d %s", w.Code, w.Body)
		}
	})
}

// A resource that a hook keeps back is not sent, and its version says so.
func TestRESTDeny(t *testing.T) {
	deny := func(n *xds.Node, _, name string) error {
		if name == "b" && n.Metadata == nil {
			return errors.New("secret")
		}
		return nil
	}
	serving(t, []xdsserver.Option{xdsserver.WithDeny(deny)}, func(h *harness) {
		h.set(restCluster(t, "a", ""), restCluster(t, "b", ""))
		some := polled(t, h.post("/v3/discovery:clusters", `{"node":{"id":"n"}}`))
		if got := names(t, some); !slices.Equal(got, []string{"a"}) {
			t.Errorf("without the right: %v", got)
		}
		all := polled(t, h.post("/v3/discovery:clusters", `{"node":{"id":"n","metadata":{"x":1}},"version_info":"`+some.GetVersionInfo()+`"}`))
		if got := names(t, all); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("with it: %v", got)
		}
	})
}
