package proxy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/proxy"
)

// statusOf asks for the status by gRPC, on the port of the admin endpoints.
func (r *running) statusOf(t *testing.T) statusv3.ClientStatusDiscoveryServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+r.AdminAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return statusv3.NewClientStatusDiscoveryServiceClient(conn)
}

// resourcesFile is a file subscription of clusters, one of which the proxy
// refuses.
func resourcesFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cds.yaml")
	must(t, os.WriteFile(path, []byte(`
version_info: "7"
resources:
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: good}
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: bad, transport_socket: {name: tls, typed_config: {
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext,
    common_tls_context: {validation_context: {trusted_ca: {filename: no/such/file}}}}}}
`), 0o600))
	return path
}

func clustersFrom(path string) string {
	return strings.Replace(small, "static_resources:", `
dynamic_resources: {cds_config: {path_config_source: {path: `+path+`}, resource_api_version: V3}}
static_resources:
  secrets: [{name: s, generic_secret: {secret: {inline_string: hidden}}}]`, 1) + adminHere
}

// Proves XD-06: what the proxy holds, by source; what is in the bootstrap
// is marked, and its secrets are not shown. Proves XD-08: by gRPC, once and on a
// stream, and by REST. Partly proves XD-04, XD-05: accepted and refused by the proxy
// itself.
func TestClientStatus(t *testing.T) {
	path := resourcesFile(t)
	r := start(t, clustersFrom(path))
	csds := r.statusOf(t)
	whole, err := csds.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{})
	must(t, err)
	list := whole.GetConfig()
	if len(list) != 2 || list[0].GetClientScope() != "source="+path+" variant=file ads=false" || list[1].GetClientScope() != "source=bootstrap" {
		t.Fatalf("%v", list)
	}
	for _, c := range list {
		if c.GetNode().GetId() != "me" || c.GetNode().GetUserAgentName() != "xebec" {
			t.Errorf("node %v", c.GetNode())
		}
	}
	var got []string
	for _, g := range slices.Concat(list[0].GetGenericXdsConfigs(), list[1].GetGenericXdsConfigs()) {
		if g.GetIsStaticResource() != (g.GetClientStatus() == adminv3.ClientResourceStatus_UNKNOWN) {
			t.Errorf("%v", g)
		}
		got = append(got, strings.TrimSpace(g.GetName()+" "+g.GetClientStatus().String()+" "+g.GetVersionInfo()+g.GetErrorState().GetVersionInfo()))
	}
	if want := "bad NACKED 7, good ACKED 7, front UNKNOWN, one UNKNOWN, none UNKNOWN, s UNKNOWN"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	if e := list[0].GetGenericXdsConfigs()[0].GetErrorState(); !strings.Contains(e.GetDetails(), "no/such/file") || e.GetFailedConfiguration() == nil || e.GetLastUpdateAttempt() == nil {
		t.Errorf("%v", e)
	}
	if strings.Contains(whole.String(), "hidden") {
		t.Error("a secret is shown")
	}
	st, err := csds.StreamClientStatus(t.Context())
	must(t, err)
	for range 2 {
		must(t, st.Send(&statusv3.ClientStatusRequest{ExcludeResourceContents: true}))
		bare, err := st.Recv()
		must(t, err)
		if g := bare.GetConfig()[0].GetGenericXdsConfigs()[1]; g.GetXdsConfig() != nil || g.GetName() != "good" {
			t.Errorf("%v", g)
		}
	}
	must(t, st.CloseSend())
	a := r.ask(t, "POST", "/v3/discovery:client_status", `{"exclude_resource_contents": true}`)
	var rest statusv3.ClientStatusResponse
	if a.status != 200 || a.kind != "application/json" || protojson.Unmarshal([]byte(a.body), &rest) != nil || len(rest.GetConfig()) != 2 {
		t.Errorf("by REST: %d %s", a.status, a.body)
	}
	for body, want := range map[string]int{"": 200, "{": 400, `{"node_matchers": [{}]}`: 400} {
		if a := r.ask(t, "POST", "/v3/discovery:client_status", body); a.status != want {
			t.Errorf("%q by REST: %d %s", body, a.status, a.body)
		}
	}
	if a := r.ask(t, "GET", "/v3/discovery:client_status", ""); a.status != 405 {
		t.Errorf("GET: %d %s", a.status, a.body)
	}
	if got := r.get(t, `/stats?filter=http.admin.downstream_(cx|rq)_http2_total`); got != "http.admin.downstream_cx_http2_total: 1\nhttp.admin.downstream_rq_http2_total: 2\n" {
		t.Errorf("statistics: %s", got)
	}
}

// Partly proves BS-43: by gRPC too, what is not among the allowed paths is denied.
func TestClientStatusNotAllowed(t *testing.T) {
	for path, want := range map[string]codes.Code{
		"/ready": codes.PermissionDenied,
		"/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus": codes.OK,
	} {
		r := start(t, small+strings.TrimSuffix(adminHere, "\n")+"\n  allow_paths: [{exact: "+path+"}]\n")
		if _, err := r.statusOf(t).FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{}); status.Code(err) != want {
			t.Errorf("with %s: %v", path, err)
		}
	}
}

// Proves AD-09: a listener that waits for its routes and secrets is there with
// their names until they have come; what Envoy does not tell is not told, such as
// clusters without endpoints.
func TestInitDump(t *testing.T) {
	s := newSource()
	r := start(t, byHeader, s.by)
	res := r.Resources()
	must(t, res.SetCluster(edsCluster("y", "svc"), "1"))
	if got := r.get(t, "/init_dump"); got != "{}\n" {
		t.Errorf("without listeners that wait: %s", got)
	}
	l := listenerAt("l", freeAddress(t), chainOf(manager(byRDS("rc"))), chainOf(manager(byRDS("rc"))))
	l.FilterChains[0].TransportSocket = socketOf(downstream("cert"))
	l.FilterChains[0].Name, l.FilterChains[1].Name = "a", "b"
	l.FilterChains[0].FilterChainMatch = &listenerv3.FilterChainMatch{ServerNames: []string{"x.test"}}
	must(t, res.SetListener(l, "1"))
	dump := func(mask string) []*adminv3.UnreadyTargetsDumps_UnreadyTargetsDump {
		var d adminv3.UnreadyTargetsDumps
		must(t, protojson.Unmarshal([]byte(r.get(t, "/init_dump"+mask)), &d))
		return d.GetUnreadyTargetsDumps()
	}
	for _, mask := range []string{"", "?mask=", "?mask=listener"} {
		d := dump(mask)
		if len(d) != 1 || !strings.HasPrefix(d[0].GetName(), "init manager Listener-local-init-manager l ") ||
			strings.Join(d[0].GetTargetNames(), ", ") != "shared target RdsRouteConfigSubscription RDS init rc, shared target SdsApi cert" {
			t.Errorf("%q: %v", mask, d)
		}
	}
	for _, mask := range []string{"?mask=cluster", "?mask=listener,cluster", "?mask=unready_targets_dumps"} {
		if d := dump(mask); len(d) != 0 {
			t.Errorf("%q: %v", mask, d)
		}
	}
	must(t, res.SetRoutes(nil, saying("rc", "y"), "1"))
	if d := dump(""); len(d) != 1 || strings.Join(d[0].GetTargetNames(), ", ") != "shared target SdsApi cert" {
		t.Errorf("with routes: %v", d)
	}
	res.Missing(nil, proxy.SecretType, "cert")
	if d := dump(""); len(d) != 0 {
		t.Errorf("when nothing is waited for: %v", d)
	}
}
