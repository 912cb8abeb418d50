package route

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter/header"
)

// world is what tables depend on beside their configuration.
type world struct {
	clusters map[string]bool
	files    map[string]string
}

func (w *world) env() *Env {
	return &Env{
		ClusterExists: func(name string) bool { return w.clusters[name] },
		ReadFile: func(name string) ([]byte, error) {
			text, ok := w.files[name]
			if !ok {
				return nil, errors.New("there is no such file")
			}
			return []byte(text), nil
		},
	}
}

// somePatterns and someHosts are what domains are drawn from, and what is asked for.
func somePatterns() []string {
	return words("* a.example B.example c.example *.example *.c.example *d a.* www.* x y z")
}

func someHosts() []string {
	return words("a.example b.example c.example q.example q.c.example xd a.com www.x x y nowhere")
}

// drawHost makes a virtual host, which may be wrong.
func drawHost(t *rapid.T) *routev3.VirtualHost {
	vh := numbered(0, rapid.SampledFrom([]string{"c", "d", "e"}).Draw(t, "cluster"))
	vh.Name = rapid.SampledFrom([]string{"v", "w", "x"}).Draw(t, "name")
	vh.Domains = rapid.SliceOfNDistinct(rapid.SampledFrom(somePatterns()), 1, 3, strings.ToLower).Draw(t, "domains")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		vh.Name = ""
	case 1, 2:
		vh.Routes[0].Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: rapid.SampledFrom([]string{"f", "g"}).Draw(t, "file")}},
		}}
	}
	return vh
}

// change makes the next version of a route configuration, and the world another.
func change(t *rapid.T, rc *routev3.RouteConfiguration, w *world) *routev3.RouteConfiguration {
	next := WithoutHosts(rc)
	next.VirtualHosts = slices.Clone(rc.GetVirtualHosts())
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		n := len(next.GetVirtualHosts())
		at := rapid.IntRange(0, n).Draw(t, "at")
		switch k := rapid.IntRange(0, 9).Draw(t, "change"); {
		case k < 3:
			next.VirtualHosts = slices.Insert(next.VirtualHosts, at, drawHost(t))
		case k < 5 && at < n:
			next.VirtualHosts[at] = drawHost(t)
		case k < 6 && at < n:
			next.VirtualHosts = slices.Delete(next.VirtualHosts, at, at+1)
		case k == 6 && at < n:
			next.VirtualHosts[0], next.VirtualHosts[at] = next.VirtualHosts[at], next.VirtualHosts[0]
		case k == 7 && at < n:
			next.VirtualHosts = append(next.VirtualHosts, next.VirtualHosts[at])
		case k == 8:
			next.ValidateClusters = wrapperspb.Bool(!next.GetValidateClusters().GetValue())
		case k == 9:
			next.IgnorePortInHostMatching = !next.GetIgnorePortInHostMatching()
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "world") {
	case 0:
		name := rapid.SampledFrom([]string{"c", "d", "e"}).Draw(t, "cluster that comes or goes")
		w.clusters[name] = !w.clusters[name]
	case 1:
		w.files["f"] += "!"
	case 2:
		if _, ok := w.files["g"]; ok {
			delete(w.files, "g")
		} else {
			w.files["g"] = "g"
		}
	}
	return next
}

// answers are what a table says to requests for some hosts.
func answers(tab *Table) string {
	var b strings.Builder
	for _, host := range someHosts() {
		for _, h := range []string{host, host + ":80"} {
			c := context(request(h, "/"))
			c.Response = &header.Map{}
			e := tab.Match(c)
			if e == nil {
				continue
			}
			fmt.Fprintf(&b, "%s: %s %s", h, e.VirtualHost(), e.Cluster())
			if e.Kind() == DirectResponse {
				_, body, _ := e.Direct(c)
				b.WriteString(" " + body)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// Whatever changes come one after the other, with clusters and files that come and go:
// a table that is made of the one before says what one that is made from nothing does,
// an update that is wrong is refused with the same words and leaves the table before,
// and no table that was made changes.
//
// Partly proves RT-13.
func TestRebuildAsFromNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{clusters: map[string]bool{"c": true, "d": true}, files: map[string]string{"f": "f", "g": "g"}}
		env := w.env()
		rc := &routev3.RouteConfiguration{Name: "r"}
		var before *Table
		said := ""
		for range rapid.IntRange(1, 12).Draw(t, "versions") {
			next := change(t, rc, w)
			want, wrong := New(proto.Clone(next).(*routev3.RouteConfiguration), env)
			got, err := Rebuild(before, next, env)
			if fmt.Sprint(err) != fmt.Sprint(wrong) {
				t.Fatalf("%v\nfrom nothing: %v\nof %v", err, wrong, next)
			}
			if before != nil && answers(before) != said {
				t.Fatalf("the table before has changed:\n%s\nit was:\n%s", answers(before), said)
			}
			if err != nil {
				if rapid.Bool().Draw(t, "go on with what was refused") {
					continue
				}
				rc = next
				continue
			}
			if a, b := answers(got), answers(want); a != b {
				t.Fatalf("%s\nfrom nothing:\n%s\nof %v", a, b, next)
			}
			rc, before, said = next, got, answers(got)
		}
	})
}

// A virtual host that has stayed is made again if it names a file: its content may have
// changed, also where a filter has read it.
func TestRebuildReadsFilesAgain(t *testing.T) {
	w := &world{files: map[string]string{"f": "first"}}
	file := numbered(0, "")
	file.Routes[0].Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
		Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: "f"}},
	}}
	rc := &routev3.RouteConfiguration{Name: "r", VirtualHosts: []*routev3.VirtualHost{file, numbered(1, "c")}}
	env := w.env()
	env.ClusterExists = nil
	before, err := New(rc, env)
	if err != nil {
		t.Fatal(err)
	}
	w.files["f"] = "second"
	after, err := Rebuild(before, rc, env)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"first", "second"} {
		tab := []*Table{before, after}[i]
		c := context(request("h0.example", "/"))
		if _, body, _ := tab.Match(c).Direct(c); body != want {
			t.Errorf("table %d answers %q, want %q", i, body, want)
		}
	}
	if before.built[1] != after.built[1] {
		t.Error("the virtual host without a file was built again")
	}
}

// Of routes whose clusters must exist also those of virtual hosts that have stayed
// must, and the refusal names them.
func TestRebuildAsksForClustersAgain(t *testing.T) {
	w := &world{clusters: map[string]bool{"c": true}}
	rc := growing(2)
	rc.Vhds = nil
	before, err := New(rc, w.env())
	if err != nil {
		t.Fatal(err)
	}
	next := WithoutHosts(rc)
	next.VirtualHosts = append(slices.Clone(rc.GetVirtualHosts()), numbered(2, "d"))
	w.clusters = map[string]bool{"d": true}
	_, err = Rebuild(before, next, w.env())
	if err == nil || strings.Count(err.Error(), "unknown cluster 'c'") != 2 {
		t.Errorf("%v", err)
	}
	w.clusters["c"] = true
	if tab, err := Rebuild(before, next, w.env()); err != nil || tab.built[0] != before.built[0] {
		t.Errorf("%v", err)
	}
}

// With validate_clusters false the clusters of virtual hosts that are discovered need
// not exist either.
func TestRebuildDoesNotAskForClusters(t *testing.T) {
	w := &world{clusters: map[string]bool{}}
	rc := growing(1)
	rc.ValidateClusters = wrapperspb.Bool(false)
	before, err := New(rc, w.env())
	if err != nil {
		t.Fatal(err)
	}
	next := WithoutHosts(rc)
	next.VirtualHosts = append(slices.Clone(rc.GetVirtualHosts()), numbered(1, "nowhere"))
	if _, err := Rebuild(before, next, w.env()); err != nil {
		t.Error(err)
	}
}

// The index of domains holds what a map does, and a copy and its original do not
// change each other.
func TestDomainIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type pair struct {
			d    domains
			want map[string]*virtualHost
		}
		hosts := []*virtualHost{{}, {}}
		all := []*pair{{want: map[string]*virtualHost{}}}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			p := rapid.SampledFrom(all).Draw(t, "map")
			name, vh := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "name")), rapid.SampledFrom(hosts).Draw(t, "host")
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				all = append(all, &pair{p.d.copy(), maps.Clone(p.want)})
				p.d.shared = true // as a table's, which does not change any more
			case 1:
				p.d.remove(name, vh)
				if p.want[name] == vh {
					delete(p.want, name)
				}
			default:
				if _, there := p.want[name]; p.d.add(name, vh) == there {
					t.Fatalf("%s was there: %v", name, there)
				} else if !there {
					p.want[name] = vh
				}
			}
			for _, p := range all {
				for i := range 31 {
					if n := fmt.Sprint(i); p.d.find([]byte(n)) != p.want[n] {
						t.Fatalf("%s: %p, want %p", n, p.d.find([]byte(n)), p.want[n])
					}
				}
				if p.d.n != len(p.want) {
					t.Fatalf("%d names, want %d", p.d.n, len(p.want))
				}
			}
		}
	})
}

// A change of one of thousands of virtual hosts, one that comes and one that goes cost
// no more than a few of them.
func TestRebuildCost(t *testing.T) {
	const n = 2000
	rc := growing(n)
	rc.Vhds = nil
	before, err := New(rc, nil)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for what, change := range map[string]func(){
		"changed":  func() { rc.VirtualHosts[7] = numbered(7, fmt.Sprint("c", i)) },
		"inserted": func() { rc.VirtualHosts = slices.Insert(rc.VirtualHosts, n/2, numbered(n+i, "c")) },
		"removed":  func() { rc.VirtualHosts = slices.Delete(rc.VirtualHosts, n/2, n/2+1) },
	} {
		if allocs := testing.AllocsPerRun(5, func() {
			i++
			change()
			before = rebuilt(t, before, rc)
		}); allocs > 150 {
			t.Errorf("one of %d virtual hosts %s: %v allocations", n, what, allocs)
		}
	}
}

func rebuilt(t *testing.T, before *Table, rc *routev3.RouteConfiguration) *Table {
	t.Helper()
	next := WithoutHosts(rc)
	next.VirtualHosts = slices.Clone(rc.GetVirtualHosts())
	tab, err := Rebuild(before, next, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}
