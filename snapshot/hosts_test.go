package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

func virtualHost(t interface{ Fatal(...any) }, name string, domains ...string) *xds.Resource {
	return marshal(t, name, &routev3.VirtualHost{Name: name, Domains: domains})
}

func marshal(t interface{ Fatal(...any) }, name string, m proto.Message) *xds.Resource {
	r, err := xds.Marshal(name, m)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHostsAreFoundByDomain asks for hosts as Envoy matches them.
// Partly proves XN-21: the name is cut at its last slash. Partly proves XN-23.
func TestHostsAreFoundByDomain(t *testing.T) {
	ports := marshal(t, "portless", &routev3.RouteConfiguration{
		Name: "portless", Vhds: &routev3.Vhds{}, IgnorePortInHostMatching: true,
	})
	s, _ := with(t, snapshot.New(), snapshot.Changes{Set: []*xds.Resource{
		virtualHost(t, "a/b/exact", "www.Example.com", "[::1]"),
		virtualHost(t, "a/b/suffix", "*.example.com"),
		virtualHost(t, "a/b/longer", "*-x.example.com"),
		virtualHost(t, "a/b/prefix", "www.*", "[::1*"),
		virtualHost(t, "a/other", "*"),
		virtualHost(t, "portless/p", "p.example", "[::1]"),
		virtualHost(t, "portless/q", "p.example:80"),
		virtualHost(t, "ported/p", "p.example"),
		virtualHost(t, "ported/q", "p.example:80"),
		virtualHost(t, "no-slash", "www.example.com"),
		ports,
	}})
	for name, want := range map[string]string{
		"a/b/www.example.com":     "a/b/exact",
		"a/b/WWW.example.COM":     "a/b/exact",
		"a/b/api.example.com":     "a/b/suffix",
		"a/b/y-x.example.com":     "a/b/longer",
		"a/b/-x.example.com":      "a/b/suffix", // a wildcard stands for something
		"a/b/.example.com":        "",
		"a/b/www.example.com:80":  "a/b/prefix",
		"a/b/www.":                "",
		"a/b/www.x":               "a/b/prefix",
		"a/b/unknown":             "",
		"a/unknown":               "a/other",
		"a/[::1]:80":              "a/other",
		"a/b/[::1]:80":            "a/b/prefix",
		"a/b/":                    "",
		"b/www.example.com":       "",
		"no-slash":                "",
		"portless/p.example":      "portless/p",
		"portless/p.example:80":   "portless/p",
		"portless/p.example:http": "",
		"portless/[::1]:80":       "portless/p",
		"ported/p.example":        "ported/p",
		"ported/p.example:80":     "ported/q",
		"ported/p.example:81":     "",
	} {
		got := ""
		if r := s.Host(name); r != nil {
			got = r.Name()
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if r := s.Resolve(xds.VirtualHostType, "a/b/exact"); r == nil || r.Name() != "a/b/exact" {
		t.Errorf("by its own name: %v", r)
	}
	if r := s.Resolve(xds.VirtualHostType, "a/b/api.example.com"); r == nil || r.Name() != "a/b/suffix" {
		t.Errorf("by a domain: %v", r)
	}
}

// TestHostsAfterChanges compares the index, after any changes, with a search
// through everything.
func TestHostsAfterChanges(t *testing.T) {
	words := rapid.SampledFrom([]string{"a", "b", "a.b", "b.a", "a.a.b", "aa", "ab", "."})
	domain := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 4).Draw(t, "kind") {
		case 0:
			return "*"
		case 1:
			return "*" + words.Draw(t, "suffix")
		case 2:
			return words.Draw(t, "prefix") + "*"
		}
		return words.Draw(t, "exact")
	})
	rapid.Check(t, func(t *rapid.T) {
		s, hosts := snapshot.New(), map[string][]string{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"t/1", "t/2", "t/3", "t/x/1", "u/1"}).Draw(t, "name")
			var c snapshot.Changes
			if rapid.IntRange(0, 3).Draw(t, "op") == 0 {
				delete(hosts, name)
				c.Remove = []xds.Key{{Type: xds.VirtualHostType, Name: name}}
			} else {
				hosts[name] = rapid.SliceOfN(domain, 1, 4).Draw(t, "domains")
				c.Set = []*xds.Resource{virtualHost(t, name, hosts[name]...)}
			}
			s, _ = with(t, s, c)
			ask := rapid.SampledFrom([]string{"t/", "t/x/", "u/"}).Draw(t, "table") + words.Draw(t, "host")
			got := ""
			if r := s.Host(ask); r != nil {
				got = r.Name()
			}
			if want := searchHost(hosts, ask); got != want {
				t.Fatalf("%s is %q among %v, want %q", ask, got, hosts, want)
			}
		}
	})
}

// searchHost matches a host by looking at every domain.
func searchHost(hosts map[string][]string, ask string) string {
	cut := strings.LastIndex(ask, "/")
	table, host := ask[:cut], ask[cut+1:]
	type match struct {
		rank, length int
		name         string
	}
	var all []match
	for name, domains := range hosts {
		if name[:strings.LastIndex(name, "/")] != table {
			continue
		}
		for _, d := range domains {
			star, bare := strings.Contains(d, "*"), strings.Trim(d, "*")
			switch longer := len(host) > len(bare); {
			case d == "*":
				all = append(all, match{3, 0, name})
			case strings.HasPrefix(d, "*") && longer && strings.HasSuffix(host, bare):
				all = append(all, match{1, -len(bare), name})
			case strings.HasSuffix(d, "*") && longer && strings.HasPrefix(host, bare):
				all = append(all, match{2, -len(bare), name})
			case !star && host == d:
				all = append(all, match{0, 0, name})
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	best := slices.MinFunc(all, func(a, b match) int {
		return strings.Compare(fmt.Sprintf("%d %03d %s", a.rank, a.length+100, a.name), fmt.Sprintf("%d %03d %s", b.rank, b.length+100, b.name))
	})
	return best.name
}

// TestHostCostsNoSearch looks a host up among few and among many.
func TestHostCostsNoSearch(t *testing.T) {
	cost := func(n int) float64 {
		c := snapshot.Changes{}
		for i := range n {
			c.Set = append(c.Set, virtualHost(t, fmt.Sprintf("t/h%d", i), fmt.Sprintf("h%d.example", i), fmt.Sprintf("*.h%d.example", i)))
		}
		s, _ := with(t, snapshot.New(), c)
		return testing.AllocsPerRun(100, func() {
			if s.Host("t/www.h7.example") == nil {
				t.Fatal("not found")
			}
		})
	}
	if few, many := cost(10), cost(5000); few != many {
		t.Errorf("%v allocations among 10 virtual hosts, %v among 5000", few, many)
	}
}
