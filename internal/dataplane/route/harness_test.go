package route

import (
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// parse reads YAML into a message.
func parse(t testing.TB, text string, into proto.Message) {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	j, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(j, into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

// request makes a request's head of ":method GET" and what is given.
func request(authority, path string, more ...string) *header.Map {
	m := &header.Map{}
	m.Add(":method", "GET")
	m.Add(":scheme", "http")
	m.Add(":authority", authority)
	m.Add(":path", path)
	m.Add("x-forwarded-proto", "http")
	addAll(m, more)
	return m
}

func addAll(m *header.Map, lines []string) {
	for _, l := range lines {
		n, v, _ := strings.Cut(l, ": ")
		if n == ":method" || n == ":scheme" || n == "x-forwarded-proto" {
			m.Set(n, v)
			continue
		}
		m.Add(n, v)
	}
}

func context(m *header.Map) *Context {
	return &Context{Request: m, Info: &filter.StreamInfo{}}
}

// testEnv has a formatter that knows %REQ(name)%, %RESPONSE_CODE% and %%.
func testEnv() *Env { return &Env{Formatter: compileTest} }

type testFormat []func(dst []byte, req *header.Map, info *filter.StreamInfo) []byte

func compileTest(text string) (Formatter, error) {
	var f testFormat
	for text != "" {
		plain, rest, ok := strings.Cut(text, "%")
		f = append(f, func(dst []byte, _ *header.Map, _ *filter.StreamInfo) []byte { return append(dst, plain...) })
		if !ok {
			break
		}
		op, after, ok := strings.Cut(rest, "%")
		name, isReq := strings.CutPrefix(op, "REQ(")
		switch {
		case !ok:
			return nil, errors.New("% is not closed")
		case isReq:
			name = headerName(strings.TrimSuffix(name, ")"))
			f = append(f, func(dst []byte, req *header.Map, _ *filter.StreamInfo) []byte { return append(dst, req.Get(name)...) })
		case op == "RESPONSE_CODE":
			f = append(f, func(dst []byte, _ *header.Map, info *filter.StreamInfo) []byte {
				return append(dst, byte('0'+info.ResponseCode/100), byte('0'+info.ResponseCode/10%10), byte('0'+info.ResponseCode%10))
			})
		case op == "":
			f = append(f, func(dst []byte, _ *header.Map, _ *filter.StreamInfo) []byte { return append(dst, '%') })
		default:
			return nil, errors.New("unknown operator " + op)
		}
		text = after
	}
	return f, nil
}

func (f testFormat) Append(dst []byte, req, _ *header.Map, info *filter.StreamInfo) ([]byte, bool) {
	n := len(dst)
	for _, p := range f {
		dst = p(dst, req, info)
	}
	return dst, len(dst) > n
}

func newTable(t testing.TB, text string) *Table {
	t.Helper()
	return newTableIn(t, text, testEnv())
}

// oneHost is a table with one virtual host for all domains.
func oneHost(t testing.TB, routes string) *Table {
	t.Helper()
	return newTable(t, "name: r\nvirtual_hosts:\n- name: v\n  domains: ['*']\n  routes:\n"+indent(routes))
}

func indent(s string) string {
	var b strings.Builder
	for l := range strings.Lines(strings.Trim(s, "\n")) {
		b.WriteString("  " + l)
	}
	return b.String()
}

func newError(t testing.TB, text string, env *Env) string {
	t.Helper()
	var cfg routev3.RouteConfiguration
	parse(t, text, &cfg)
	_, err := New(&cfg, env)
	if err == nil {
		t.Fatalf("no error for:\n%s", text)
	}
	return err.Error()
}

func newTableIn(t testing.TB, text string, env *Env) *Table {
	t.Helper()
	var cfg routev3.RouteConfiguration
	parse(t, text, &cfg)
	tab, err := New(&cfg, env)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func words(s string) []string { return strings.Fields(s) }

func split(s, by string) []string { return strings.Split(s, by) }

func mustAddr(t testing.TB, s string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
