package discovery

import (
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/testcert"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// heard are the heads of the streams that a server was opened.
type heard struct {
	mu    sync.Mutex
	heads []metadata.MD
}

func (h *heard) intercept(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	md, _ := metadata.FromIncomingContext(s.Context())
	h.mu.Lock()
	h.heads = append(h.heads, md)
	h.mu.Unlock()
	return next(srv, s)
}

// only is the one head there is.
func (h *heard) only(t *testing.T) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.heads) != 1 {
		t.Fatalf("%d streams were opened, want 1: %v", len(h.heads), h.heads)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(h.heads[0])) {
		if name == ":authority" || name == "authorization" || strings.HasPrefix(name, "x-") {
			out = append(out, name+"="+strings.Join(h.heads[0][name], ","))
		}
	}
	return strings.Join(out, " ")
}

// quoted is JSON of a text.
func quoted(text []byte) string { return fmt.Sprintf("%q", text) }

// issued are certificates of one authority for a test.
type issued struct{ root, cert, key []byte }

func issue(t *testing.T) (*testcert.Authority, issued) {
	t.Helper()
	ca, err := testcert.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := ca.Issue("localhost")
	if err != nil {
		t.Fatal(err)
	}
	return ca, issued{ca.PEM(), cert, key}
}

// Each way to a gRPC service brings resources, over one stream that has what the
// service is to be told: metadata, the authority, a token, a client's
// certificate. A timeout is one for requests that end, and not for streams.
// Proves BS-29 with TestSeveralServices and TestBackoffOfServices of configsource
// and TestMessageLimit.
func TestGRPCServices(t *testing.T) {
	ca, have := issue(t)
	pair, err := tls.X509KeyPair(have.cert, have.key)
	if err != nil {
		t.Fatal(err)
	}
	mutual := grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	}))
	const more = `"timeout": "0.001s", "initialMetadata": [{"key": "x-who", "value": "me"}, {"key": "x-bin-bin", "rawValue": "AQI="}]`
	said := "x-bin-bin=\x01\x02 x-who=me"
	for name, c := range map[string]struct {
		service, want string // %s: the server's address
		server        []grpc.ServerOption
	}{
		"envoy":           {`"envoyGrpc": {"clusterName": "xds"}`, ":authority=xds ", nil},
		"envoy authority": {`"envoyGrpc": {"clusterName": "xds", "authority": "me.test", "retryPolicy": {"retryBackOff": {"baseInterval": "1s"}}}`, ":authority=me.test ", nil},
		"google":          {`"googleGrpc": {"targetUri": "%s", "statPrefix": "g"}`, ":authority=%s ", nil},
		"google local":    {`"googleGrpc": {"targetUri": "%s", "statPrefix": "g", "channelCredentials": {"localCredentials": {}}}`, ":authority=%s ", nil},
		"google ssl": {
			`"googleGrpc": {"targetUri": "%s", "statPrefix": "g", "callCredentials": [{"accessToken": "open sesame"}], "channelCredentials": {"sslCredentials": {
			"rootCerts": {"inlineString": ` + quoted(have.root) + `}, "certChain": {"environmentVariable": "CERT"}, "privateKey": {"filename": "key.pem"}}}}`,
			":authority=%s authorization=Bearer open sesame ",
			[]grpc.ServerOption{mutual},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var h heard
			m := manage(t, append(c.server, grpc.StreamInterceptor(h.intercept))...)
			at := strings.NewReplacer("%s", strings.Replace(m.addr, "127.0.0.1", "localhost", 1))
			set := func(name string) {
				m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, name, &clusterv3.Cluster{Name: name})}})
			}
			set("a")
			g := &target{}
			d := startWith(t, bootstrap(t, `{"node": {"id": "n"}, "dynamicResources": {"cdsConfig": {"ads": {}},
				"adsConfig": {"apiType": "GRPC", "grpcServices": [{`+at.Replace(c.service)+`, `+more+`}]}}}`), m.addr, g, func(cfg *Config) {
				cfg.Getenv = func(name string) (string, bool) { return string(have.cert), name == "CERT" }
				cfg.ReadFile = func(name string) ([]byte, error) {
					if name != "key.pem" {
						return nil, os.ErrNotExist
					}
					return have.key, nil
				}
			})
			d.Clusters(t.Context())
			g.until(t, "set cluster a")
			set("b")
			g.until(t, "set cluster b")
			if got, want := h.only(t), at.Replace(c.want)+said; got != want {
				t.Errorf("the head of the stream: %q, want %q", got, want)
			}
			if strings.HasPrefix(name, "google") {
				if n := counted(t, d.cfg.Stats, "grpc.g.streams_total"); n != 1 {
					t.Errorf("streams_total is %d, want 1", n)
				}
			}
		})
	}
}

// counted is the value of a counter.
func counted(t *testing.T, r *stats.Registry, name string) uint64 {
	t.Helper()
	s, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Counter(r.Scope("").Counter(name))
}

// untilCounted waits until a counter has counted something.
func untilCounted(t *testing.T, r *stats.Registry, name string) {
	t.Helper()
	for range 500 {
		if counted(t, r, name) > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%s stays 0", name)
}

// A message over the limit ends the stream, which is counted, as is a stream that
// the server ends.
func TestMessageLimit(t *testing.T) {
	m := manage(t)
	m.apply(t, snapshot.Changes{Set: []*xds.Resource{resource(t, "a", &clusterv3.Cluster{Name: "a"})}})
	g := &target{}
	d := start(t, bootstrap(t, strings.Replace(dynamic("GRPC", `{"ads": {}, "initialFetchTimeout": "0.01s"}`), `"xds"`, `"xds", "maxReceiveMessageLength": 10`, 1)), m.addr, g)
	d.Clusters(t.Context())
	untilCounted(t, d.cfg.Stats, "cluster_manager.cds.update_failure")
	if got := g.lines(); slices.Contains(got, "set cluster a") {
		t.Errorf("a message over the limit is used: %q", got)
	}
	ends := manage(t, grpc.StreamInterceptor(func(any, grpc.ServerStream, *grpc.StreamServerInfo, grpc.StreamHandler) error {
		return fmt.Errorf("no") //nolint:perfsprint // status UNKNOWN
	}))
	d = start(t, bootstrap(t, `{"node": {"id": "n"}, "dynamicResources": {"cdsConfig": {"ads": {}, "initialFetchTimeout": "0.01s"},
		"adsConfig": {"apiType": "GRPC", "grpcServices": [{"googleGrpc": {"targetUri": "`+ends.addr+`", "statPrefix": "g"}}]}}}`), "", &target{})
	d.Clusters(t.Context())
	untilCounted(t, d.cfg.Stats, "grpc.g.streams_closed_2")
}

// Credentials that are wrong or not built are refused by their field's name.
func TestGoogleRefused(t *testing.T) {
	_, have := issue(t)
	inline := func(b []byte) string { return `{"inlineString": ` + quoted(b) + `}` }
	for service, want := range map[string]string{
		`{}`: "target_uri",
		`{"targetUri": "x", "credentialsFactoryName": "f"}`:                                                                                              "credentials_factory_name",
		`{"targetUri": "x", "channelCredentials": {"googleDefault": {}}}`:                                                                                "channel_credentials.google_default",
		`{"targetUri": "x", "channelCredentials": {"sslCredentials": {"rootCerts": {"filename": "gone"}}}}`:                                              "channel_credentials.ssl_credentials.root_certs.filename",
		`{"targetUri": "x", "channelCredentials": {"sslCredentials": {"rootCerts": {"inlineString": "x"}}}}`:                                             "channel_credentials.ssl_credentials.root_certs: there is no certificate",
		`{"targetUri": "x", "channelCredentials": {"sslCredentials": {"certChain": ` + inline(have.cert) + `}}}`:                                         "channel_credentials.ssl_credentials.private_key",
		`{"targetUri": "x", "channelCredentials": {"sslCredentials": {"privateKey": ` + inline(have.key) + `}}}`:                                         "channel_credentials.ssl_credentials.cert_chain",
		`{"targetUri": "x", "channelCredentials": {"sslCredentials": {"certChain": ` + inline(have.root) + `, "privateKey": ` + inline(have.key) + `}}}`: "channel_credentials.ssl_credentials.cert_chain",
		`{"targetUri": "x", "callCredentials": [{"accessToken": "a"}]}`:                                                                                  "call_credentials[0].access_token: is only sent over TLS",
		`{"targetUri": "x", "callCredentials": [{}]}`:                                                                                                    "call_credentials[0].credential_specifier",
		`{"targetUri": "x", "channelCredentials": {"sslCredentials": {}}, "callCredentials": [{"accessToken": ""}]}`:                                     "call_credentials[0].access_token",
		`{"targetUri": "x", "callCredentials": [{"googleComputeEngine": {}}]}`:                                                                           "call_credentials[0].google_compute_engine",
		`{"targetUri": "x", "callCredentials": [{"googleRefreshToken": "t0ken"}]}`:                                                                       "call_credentials[0].google_refresh_token",
		`{"targetUri": "x", "callCredentials": [{"googleIam": {}}]}`:                                                                                     "call_credentials[0].google_iam",
		`{"targetUri": "x", "callCredentials": [{"serviceAccountJwtAccess": {}}]}`:                                                                       "call_credentials[0].service_account_jwt_access",
		`{"targetUri": "x", "callCredentials": [{"fromPlugin": {}}]}`:                                                                                    "call_credentials[0].from_plugin",
		`{"targetUri": "x", "callCredentials": [{"stsService": {}}]}`:                                                                                    "call_credentials[0].sts_service",
	} {
		reg, err := stats.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Config{
			Bootstrap: bootstrap(t, `{"dynamicResources": {"adsConfig": {"apiType": "GRPC", "grpcServices": [{"googleGrpc": `+service+`}]}}}`), Stats: reg,
			ReadFile: os.ReadFile,
		})
		if err == nil || !strings.Contains(err.Error(), "ads_config.grpc_services[0]: google_grpc."+want) {
			t.Errorf("%s:\n%v, want %s", service, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "t0ken") || strings.Contains(err.Error(), "PRIVATE")) {
			t.Errorf("%s: the error tells a secret: %v", service, err)
		}
	}
}
