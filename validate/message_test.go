package validate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	// The scripts name any type of v3, and some of v2.
	_ "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/filter/network/tcp_proxy/v2"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	_ "github.com/xebec-proxy/xebec/internal/alltypes"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// typeURL turns a kind ("Cluster") or a full message name into a type URL.
func typeURL(word string) string {
	if t, ok := xds.LookupType(word); ok {
		return t.URL
	}
	return xds.TypePrefix + word
}

func parse(t testing.TB, typeURL, text string) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByURL(typeURL)
	if err != nil {
		t.Fatal(err)
	}
	m := mt.New().Interface()
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return m
}

// shorthands keep the scripts readable.
func shorthands() *strings.Replacer {
	const ext = "type.googleapis.com/envoy.extensions."
	return strings.NewReplacer(
		"[HCM]", "["+ext+"filters.network.http_connection_manager.v3.HttpConnectionManager]",
		"[TCP]", "["+ext+"filters.network.tcp_proxy.v3.TcpProxy]",
		"[ROUTER]", "["+ext+"filters.http.router.v3.Router]",
		"[TLS]", "["+ext+"transport_sockets.tls.v3.DownstreamTlsContext]",
		"[HTTP/", "["+ext+"filters.http.",
		"[NET/", "["+ext+"filters.network.",
	)
}

// TestMessage runs the scripts in testdata/message: "check TYPE [NAME]" over a
// message in the text format prints its findings. Run with -rewrite to renew.
//
// Partly proves XS-83, BS-19, BS-18, BS-14: rules are found in the message and
// in every Any below it, with path and in Envoy's words.
func TestMessage(t *testing.T) {
	met := map[string]bool{}
	datadriven.Walk(t, "testdata/message", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "check" || len(d.CmdArgs) == 0 {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			name := ""
			if len(d.CmdArgs) > 1 {
				name = d.CmdArgs[1].Key
			}
			m := parse(t, typeURL(d.CmdArgs[0].Key), shorthands().Replace(d.Input))
			findings := validate.Message(m, name, nil)
			for _, f := range findings {
				met[f.Code] = true
			}
			return lines(findings)
		})
	})
	for _, c := range validate.Codes() {
		if c.Tier == validate.Schema && !met[c.Code] && c.Code != "nested-too-deep" {
			t.Errorf("no script has a finding %q", c.Code)
		}
	}
}

func lines(findings []validate.Finding) string {
	if len(findings) == 0 {
		return "ok\n"
	}
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s %s at %q\n  %s\n", f.Severity, f.Code, f.Path, f.Message)
		if f.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", f.Hint)
		}
	}
	return b.String()
}

// locator answers with the path's length, so that a test sees which it asked.
type locator struct{ asked []string }

func (l *locator) Position(path string) xds.Position {
	l.asked = append(l.asked, path)
	return xds.Position{File: "f.yaml", Line: len(path), Column: 1}
}

// Partly proves XS-83, BS-18: a finding has file, line and field.
func TestMessagePositions(t *testing.T) {
	m := parse(t, xds.ListenerType, shorthands().Replace(`name: "l" address { pipe { path: "/p" } }
		filter_chains { filters { name: "h" typed_config { [HCM] { route_config {} http_filters { name: "r" typed_config { [ROUTER] {} } } } } } }`))
	at := &locator{}
	got := validate.Message(m, "", at)
	const path = "filter_chains[0].filters[0].typed_config.stat_prefix"
	if len(got) != 1 || got[0].Path != path || got[0].Pos != (xds.Position{File: "f.yaml", Line: len(path), Column: 1}) {
		t.Fatalf("findings %+v", got)
	}
	if !slices.Equal(at.asked, []string{path}) {
		t.Errorf("asked for %q", at.asked)
	}
	if got[0].Type != xds.ListenerType || got[0].Name != "l" || got[0].Tier != validate.Schema {
		t.Errorf("finding of %+v", got[0])
	}
	const want = `f.yaml:52:1: error: Listener "l" filter_chains[0].filters[0].typed_config.stat_prefix: ` +
		`Proto constraint validation failed (HttpConnectionManager.StatPrefix: value length must be at least 1 runes) (give stat_prefix a value)`
	if got[0].String() != want {
		t.Errorf("printed as\n%s\nwant\n%s", got[0], want)
	}
}

func TestMessageOfNothing(t *testing.T) {
	if got := validate.Message(nil, "", nil); got != nil {
		t.Errorf("findings of nil: %v", got)
	}
	if got := validate.Message((*clusterv3.Cluster)(nil), "", nil); got != nil {
		t.Errorf("findings of a nil cluster: %v", got)
	}
}

func TestNestedTooDeep(t *testing.T) {
	inner := proto.Message(&clusterv3.Cluster{Name: "c"})
	for range 40 {
		a := &corev3.TypedExtensionConfig{Name: "x"}
		a.TypedConfig = mustAny(t, inner)
		inner = a
	}
	got := validate.Message(inner, "", nil)
	if len(got) != 1 || got[0].Code != "nested-too-deep" {
		t.Errorf("findings %v", got)
	}
}

// Checking never panics, is repeatable, and every path leads from a field.
func FuzzMessage(f *testing.F) {
	for _, text := range []string{
		`name: "l" filter_chains { filters { name: "h" typed_config { [HCM] { http_filters { typed_config { [ROUTER] {} } } } } } }`,
		`name: "l" filter_chains {} filter_chains { transport_socket { name: "t" typed_config { [TLS] {} } } }`,
	} {
		b, err := proto.Marshal(parse(f, xds.ListenerType, shorthands().Replace(text)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{
			&listenerv3.Listener{}, &routev3.RouteConfiguration{}, &clusterv3.Cluster{}, &endpointv3.ClusterLoadAssignment{},
		} {
			if proto.Unmarshal(b, m) != nil {
				continue
			}
			first, second := validate.Message(m, "n", nil), validate.Message(m, "n", nil)
			if !slices.Equal(first, second) {
				t.Fatalf("findings differ:\n%v\n%v", first, second)
			}
			for _, x := range first {
				if x.Message == "" || x.Code == "" || x.Severity == "" {
					t.Fatalf("incomplete finding %+v", x)
				}
			}
		}
	})
}

func mustAny(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
