package route

import (
	"slices"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

// levels is a table that changes headers at all four levels.
func levels(t *testing.T, action, top string) *Table {
	t.Helper()
	level := func(who string, names ...string) string {
		var b strings.Builder
		for _, n := range names {
			b.WriteString(n + ": [{header: {key: x, value: " + who + "}, append_action: " + action + "}], ")
		}
		return b.String()
	}
	both := []string{"request_headers_to_add", "response_headers_to_add"}
	return newTable(t, "{"+top+level("table", both...)+"virtual_hosts: [{name: v, domains: ['*'], "+level("host", both...)+
		"routes: [{match: {prefix: /}, "+level("route", both...)+
		"route: {weighted_clusters: {clusters: [{name: c, weight: 1, "+level("cluster", both...)+"}]}}}]}]}")
}

// Proves RT-22. The order was measured with Envoy 1.40.
func TestMutationsOfAllLevels(t *testing.T) {
	const appendIt, add, overwrite, replace = "APPEND_IF_EXISTS_OR_ADD", "ADD_IF_ABSENT", "OVERWRITE_IF_EXISTS_OR_ADD", "OVERWRITE_IF_EXISTS"
	for _, tc := range []struct{ action, top, before, want string }{
		{appendIt, "", "", "cluster route host table"},
		{appendIt, "", "was", "was cluster route host table"},
		{appendIt, "most_specific_header_mutations_wins: true, ", "", "cluster table host route"},
		{add, "", "", "cluster"},
		{add, "", "was", "was"},
		{add, "most_specific_header_mutations_wins: true, ", "", "cluster"},
		{overwrite, "", "", "table"},
		{overwrite, "", "was", "table"},
		{overwrite, "most_specific_header_mutations_wins: true, ", "was", "route"},
		{replace, "", "", ""},
		{replace, "", "was", "table"},
		{replace, "most_specific_header_mutations_wins: true, ", "was", "route"},
	} {
		tab := levels(t, tc.action, tc.top)
		c := context(request("h", "/"))
		c.Response = &header.Map{}
		if tc.before != "" {
			c.Request.Add("x", tc.before)
			c.Response.Add("x", tc.before)
		}
		e := tab.Match(c)
		target := e.PickCluster(c)
		e.FinalizeRequest(c, target)
		e.FinalizeResponse(c, target)
		for _, m := range []*header.Map{c.Request, c.Response} {
			if got := strings.Join(slices.Collect(m.Values("x")), " "); got != tc.want {
				t.Errorf("%s %q after %q: %q, want %q", tc.action, tc.top, tc.before, got, tc.want)
			}
		}
	}
}

// Proves RT-22, RT-23. The results were measured with Envoy 1.40.
func TestMutations(t *testing.T) {
	tab := oneHost(t, `
- match: {prefix: /}
  route: {cluster: c}
  request_headers_to_remove: [X-Del, accept-encoding]
  request_headers_to_add:
  - {header: {key: x-a, value: "1"}}
  - {header: {key: X-B, value: "1"}, append_action: ADD_IF_ABSENT}
  - {header: {key: x-c, value: "1"}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
  - {header: {key: x-d, value: "1"}, append_action: OVERWRITE_IF_EXISTS}
  - {header: {key: x-e, value: "%REQ(nope)%"}}
  - {header: {key: x-f, value: "%REQ(nope)%"}, keep_empty_value: true}
  - {header: {key: x-g, value: ""}}
  - {header: {key: user-agent, value: added}}
  - {header: {key: cookie, value: c=1}}
  - {header: {key: accept, value: added}}
  - {header: {key: x-forwarded-for, value: 1.1.1.1}}
  - {header: {key: x-p, value: "100%%"}}
  - {header: {key: x-r, value: "%REQ(x-c)%"}}
  - {header: {key: x-multi, value: "1"}, append: false}
  - {header: {key: x-old, value: "1"}, append: true}
  - {header: {key: x-raw, raw_value: aGk=}}
`)
	for _, tc := range []struct{ before, want string }{
		{"", "x-c: 1|x-multi: 1|x-a: 1|x-b: 1|x-f: |user-agent: added|cookie: c=1|accept: added|x-forwarded-for: 1.1.1.1|x-p: 100%|x-old: 1|x-raw: hi"},
		{
			"x-a: 0|x-b: 0|x-c: 0|x-d: 0|x-e: 0|x-del: 1|user-agent: u|cookie: a=b|accept: 0|accept-encoding: x|x-multi: 1|x-multi: 2|x-forwarded-for: 9.9.9.9|x-del: 2",
			"x-a: 0|x-b: 0|x-c: 1|x-d: 1|x-e: 0|user-agent: u,added|cookie: a=b|accept: 0,added|x-multi: 1|x-forwarded-for: 9.9.9.9,1.1.1.1|" +
				"x-a: 1|x-f: |cookie: c=1|x-p: 100%|x-r: 0|x-old: 1|x-raw: hi",
		},
	} {
		var before []string
		if tc.before != "" {
			before = strings.Split(tc.before, "|")
		}
		h := finalize(t, tab, context(request("h", "/", before...)))
		var got []string
		for n, v := range h.All() {
			if n[0] != ':' && n != "x-forwarded-proto" {
				got = append(got, n+": "+v)
			}
		}
		if s := strings.Join(got, "|"); s != tc.want {
			t.Errorf("got  %s\nwant %s", s, tc.want)
		}
	}
}

// All values are made of the headers as they came, whatever is written first.
func TestMutationsReadTheHeadersAsTheyCame(t *testing.T) {
	tab := oneHost(t, `
- match: {prefix: /}
  route: {cluster: c, host_rewrite_literal: new, prefix_rewrite: /new}
  request_headers_to_add:
  - {header: {key: x-a, value: "%REQ(x-b)%"}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
  - {header: {key: x-b, value: "%REQ(x-a)%"}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
  - {header: {key: x-host, value: "%REQ(:authority)%%REQ(:path)%"}}
`)
	h := finalize(t, tab, context(request("old", "/p", "x-a: a", "x-b: b")))
	if h.Get("x-a") != "b" || h.Get("x-b") != "a" || h.Get("x-host") != "old/p" {
		t.Errorf("got\n%s", h)
	}
}
