package edge

import (
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

const today = "Sat, 21 Nov 2026 17:40:00 GMT"

// respond applies rules to a response; "-" says that the test's request has no
// such header.
func respond(t *testing.T, config string, upgrade bool, req []string, lines ...string) *answer {
	t.Helper()
	var asked header.Map
	fill(&asked, req)
	a := &answer{}
	a.h.Add(":status", "200")
	fill(&a.h, lines)
	rulesOf(t, config).Response(&asked, &a.h, &Response{Info: &filter.StreamInfo{}, Date: today, Upgrade: upgrade})
	return a
}

// Proves HC-27 and HC-28: server, via and date.
func TestResponseSignature(t *testing.T) {
	foo := `"serverName":"foo"`
	for _, tc := range []struct {
		config string
		lines  []string
		name   string
		want   string
	}{
		{"", nil, "server", "envoy"},
		{"", []string{"server: up"}, "server", "envoy"},
		{foo, []string{"server: up"}, "server", "foo"},
		{foo, []string{"server: 1", "server: 2"}, "server", "foo"},
		{foo + `,"serverHeaderTransformation":"APPEND_IF_ABSENT"`, nil, "server", "foo"},
		{foo + `,"serverHeaderTransformation":"APPEND_IF_ABSENT"`, []string{"server: up"}, "server", "up"},
		{foo + `,"serverHeaderTransformation":"APPEND_IF_ABSENT"`, []string{"server: "}, "server", ""},
		{foo + `,"serverHeaderTransformation":"PASS_THROUGH"`, nil, "server", "-"},
		{foo + `,"serverHeaderTransformation":"PASS_THROUGH"`, []string{"server: up"}, "server", "up"},
		{"", nil, "via", "-"},
		{`"via":"pr"`, nil, "via", "pr"},
		{`"via":"pr"`, []string{"via: up"}, "via", "up, pr"},
		{`"via":"pr"`, []string{"via: 1", "via: 2"}, "via", "1,2, pr"},
		{"", nil, "date", today},
		{"", []string{"date: Thu, 01 Jan 1970 00:00:00 GMT"}, "date", "Thu, 01 Jan 1970 00:00:00 GMT"},
		{"", []string{"vary: 1", "vary: 2"}, "vary", "1,2"},
		{"", []string{"set-cookie: 1", "set-cookie: 2"}, "set-cookie", "1|2"},
	} {
		if got := respond(t, tc.config, false, nil, tc.lines...).get(tc.name); got != tc.want {
			t.Errorf("%s %v: %s is %q, want %q", tc.config, tc.lines, tc.name, got, tc.want)
		}
	}
}

// What the rules add comes in Envoy's order.
func TestResponseOrder(t *testing.T) {
	a := respond(t, `"via":"pr","alwaysSetRequestIdInResponse":true`, false, []string{"x-request-id: a"}, "x-a: 1")
	if got, want := a.h.String(), ":status: 200\nx-a: 1\ndate: "+today+"\nserver: envoy\nx-request-id: a\nvia: pr\n"; got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// Proves HC-35: when a response tells the request's id.
func TestResponseRequestID(t *testing.T) {
	for _, tc := range []struct {
		config string
		req    []string
		lines  []string
		want   string
	}{
		{"", []string{"x-request-id: a"}, nil, "-"},
		{"", []string{"x-request-id: a"}, []string{"x-request-id: up"}, "up"},
		{"", []string{"x-request-id: a", "x-envoy-force-trace: 1"}, nil, "a"},
		{"", []string{"x-envoy-force-trace: 1"}, nil, "-"},
		{`"alwaysSetRequestIdInResponse":true`, []string{"x-request-id: a"}, []string{"x-request-id: up"}, "a"},
		{`"alwaysSetRequestIdInResponse":true`, nil, []string{"x-request-id: up"}, "up"},
	} {
		if got := respond(t, tc.config, false, tc.req, tc.lines...).get("x-request-id"); got != tc.want {
			t.Errorf("%s %v %v: %q, want %q", tc.config, tc.req, tc.lines, got, tc.want)
		}
	}
}

// Proves HC-29: a response's hop-by-hop headers, and what its Connection names.
func TestResponseHopByHop(t *testing.T) {
	lines := []string{"connection: upgrade, x-q, :status", "connection: x-r", "upgrade: websocket", "keep-alive: 2", "proxy-connection: 3", "transfer-encoding: chunked", "x-q: 1", "x-r: 1", "te: a", "trailer: q"}
	names := "connection upgrade x-q x-r keep-alive proxy-connection transfer-encoding :status trailer"
	for upgrade, want := range map[bool]string{false: ":status trailer", true: "connection upgrade x-q x-r :status trailer"} {
		a := respond(t, "", upgrade, nil, lines...)
		for n := range strings.FieldsSeq(names) {
			if expected := strings.Contains(" "+want+" ", " "+n+" "); a.h.Has(n) != expected {
				t.Errorf("upgrade %t: %s is there %t, want %t", upgrade, n, a.h.Has(n), expected)
			}
		}
	}
}
