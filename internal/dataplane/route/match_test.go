package route

import "testing"

// Proves RT-01.
func TestDomains(t *testing.T) {
	tab := newTable(t, `
name: r
virtual_hosts:
- {name: exact, domains: [www.foo.com, "www.foo.com:8080", "[::1]:80"], routes: [{match: {prefix: /}, route: {cluster: c}}]}
- {name: long-suffix, domains: ["*-bar.foo.com"], routes: [{match: {prefix: /}, route: {cluster: c}}]}
- {name: suffix, domains: ["*.foo.com"], routes: [{match: {prefix: /}, route: {cluster: c}}]}
- {name: long-prefix, domains: ["foo.bar.*"], routes: [{match: {prefix: /}, route: {cluster: c}}]}
- {name: prefix, domains: ["foo.*"], routes: [{match: {prefix: /}, route: {cluster: c}}]}
- {name: any, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: c}}]}
`)
	for host, want := range map[string]string{
		"www.foo.com": "exact", "WWW.Foo.COM": "exact", "www.foo.com:8080": "exact", "www.foo.com:81": "any", "[::1]:80": "exact",
		"a.foo.com": "suffix", "x-bar.foo.com": "long-suffix", "-bar.foo.com": "suffix", ".foo.com": "any", "foo.com": "prefix",
		"foo.": "any", "foo.a": "prefix", "foo.bar.": "prefix", "foo.bar.x": "long-prefix", "foo.foo.com": "suffix", "": "any", "other": "any",
	} {
		e := tab.Match(context(request(host, "/")))
		if e == nil || e.VirtualHost() != want {
			t.Errorf("%q goes to %v, want %s", host, e, want)
		}
	}
}

// Proves RT-03.
func TestFirstMatch(t *testing.T) {
	tab := newTable(t, `
name: r
virtual_hosts:
- name: v
  domains: [foo.com]
  routes:
  - {name: exact, match: {path: /foo}, route: {cluster: a}}
  - {name: long, match: {prefix: /foo/long/}, route: {cluster: a}}
  - {name: foo, match: {prefix: /foo/}, route: {cluster: a}}
  - {name: never, match: {prefix: /foo/x}, route: {cluster: a}}
  - {name: regex, match: {safe_regex: {regex: "/re[0-9]+"}}, route: {cluster: a}}
  - {name: after, match: {prefix: /re}, route: {cluster: a}}
`)
	for path, want := range map[string]string{
		"/foo?x=1": "exact", "/foo": "exact", "/foobar": "", "/foo/": "foo", "/foo/x": "foo", "/foo/long/1": "long",
		"/re1": "regex", "/re1x": "after", "/re": "after", "/": "", "/foo#f": "exact",
	} {
		got := ""
		if e := tab.Match(context(request("foo.com", path))); e != nil {
			got = e.Name()
		}
		if got != want {
			t.Errorf("%s goes to %q, want %q", path, got, want)
		}
	}
	if e := tab.Match(context(request("bar.com", "/foo"))); e != nil {
		t.Errorf("another host goes to %s", e.Name())
	}
}
