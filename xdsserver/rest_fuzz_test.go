package xdsserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// restServer serves a few resources.
func restServer(t testing.TB, opts ...xdsserver.Option) *xdsserver.Server {
	t.Helper()
	srv, err := xdsserver.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	list := []*xds.Resource{restCluster(t, "a", ""), restCluster(t, "b", ""), assignment(t, "a"), assignment(t, "b")}
	if err := srv.Apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: {Set: list}}}); err != nil {
		t.Fatal(err)
	}
	return srv
}

// FuzzREST: every body has an answer, and never 200 with nothing in it.
// Partly proves XR-08.
func FuzzREST(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"node":{"id":"n"},"resource_names":["a"]}`, `{"version_info":"x","error_detail":{"message":"a"},"response_nonce":"x"}`,
		`{"resourceLocators":[{"name":"a"}]}`, `{"node":{"metadata":{"a":[1,null,{"b":true}]}}}`, `[]`, ``, `{"health_check_request":{}}`,
		`{"node_matchers":[{"node_id":{"exact":"n"}}]}`, `{"resource_names":["*","*"],"type_url":"type.googleapis.com/envoy.config.cluster.v3.Cluster"}`,
	} {
		f.Add("clusters", body)
		f.Add("endpoints", body)
		f.Add("client_status", body)
	}
	srv := restServer(f)
	f.Fuzz(func(t *testing.T, part, body string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.URL.Path = "/v3/discovery:" + part
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		srv.RESTHandler().ServeHTTP(w, r)
		switch {
		case w.Code == http.StatusNotModified:
			if w.Body.Len() != 0 {
				t.Errorf("304 with %q", w.Body)
			}
		case !slices.Contains([]int{http.StatusOK, http.StatusBadRequest, http.StatusNotFound}, w.Code) || !json.Valid(w.Body.Bytes()):
			t.Errorf("%q is answered %d %q", body, w.Code, w.Body)
		}
	})
}

// BenchmarkREST is a poll that finds nothing new, and one that is given 1000
// clusters.
func BenchmarkREST(b *testing.B) {
	srv := restServer(b)
	var list []*xds.Resource
	for i := range 1000 {
		list = append(list, restCluster(b, "cluster-"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+strings.Repeat("y", i/26), ""))
	}
	if err := srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: {Set: list}}}); err != nil {
		b.Fatal(err)
	}
	h := srv.RESTHandler()
	post := func(body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v3/discovery:clusters", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	var first struct{ VersionInfo string }
	if err := json.Unmarshal(post(`{"node":{"id":"n"}}`).Body.Bytes(), &first); err != nil || first.VersionInfo == "" {
		b.Fatal(err)
	}
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			if w := post(`{"node":{"id":"n"},"version_info":"` + first.VersionInfo + `"}`); w.Code != http.StatusNotModified {
				b.Fatal(w.Code)
			}
		}
	})
	b.Run("1000clusters", func(b *testing.B) {
		for b.Loop() {
			if w := post(`{"node":{"id":"m"}}`); w.Code != http.StatusOK {
				b.Fatal(w.Code)
			}
		}
	})
}
