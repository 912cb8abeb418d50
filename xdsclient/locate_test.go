package xdsclient_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

const (
	clusterA = "xdstp://a/envoy.config.cluster.v3.Cluster/"
	clusterB = "xdstp://b/envoy.config.cluster.v3.Cluster/"
	listA    = "xdstp://a/envoy.config.cluster.v3.ClusterCollection/"
	listB    = "xdstp://b/envoy.config.cluster.v3.ClusterCollection/"
)

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func locatorOf(t *testing.T, name string) *xdscorev3.ResourceLocator {
	t.Helper()
	l, err := xds.ParseLocator(name)
	if err != nil {
		t.Fatal(err)
	}
	return l.Proto()
}

// holds is a delta response with clusters "name=alt", redirects "name>locator" and list
// collections "name[entry entry…]", of which an entry is a locator, "entry=alt" or, without a
// name, ":cluster=alt". What begins with "-" is removed.
func holds(t *testing.T, items ...string) *client.Response {
	t.Helper()
	r := &client.Response{TypeURL: xds.ClusterType, Nonce: "n"}
	for i, item := range items {
		if name, gone := strings.CutPrefix(item, "-"); gone {
			r.Removed = append(r.Removed, name)
			continue
		}
		raw := client.Raw{TypeURL: xds.ClusterType, HasBody: true, Version: fmt.Sprint("v", i)}
		if name, rest, ok := strings.Cut(item, "["); ok {
			raw.Name, raw.TypeURL = name, xds.CollectionType(xds.ClusterType)
			raw.Body = encode(t, listOf(t, strings.Fields(strings.TrimSuffix(rest, "]"))))
		} else if name, to, ok := strings.Cut(item, ">"); ok {
			raw.Name, raw.TypeURL, raw.Body = name, xds.LocatorType, encode(t, locatorOf(t, to))
		} else {
			raw.Body = rawCluster(item).Body
			raw.Name = item[:strings.LastIndexByte(item, '=')]
		}
		r.Resources = append(r.Resources, raw)
	}
	return r
}

func listOf(t *testing.T, entries []string) *listenerv3.ListenerCollection {
	t.Helper()
	m := &listenerv3.ListenerCollection{}
	for _, e := range entries {
		if strings.HasPrefix(e, "xdstp:") {
			m.Entries = append(m.Entries, &xdscorev3.CollectionEntry{
				ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: locatorOf(t, e)},
			})
			continue
		}
		in := &xdscorev3.CollectionEntry_InlineEntry{Version: "in", Resource: &anypb.Any{TypeUrl: xds.ClusterType}}
		if own, anonymous := strings.CutPrefix(e, ":"); anonymous {
			in.Resource.Value = rawCluster(own).Body
		} else {
			in.Name, _, _ = strings.Cut(e, "=")
			in.Resource.Value = rawCluster(e).Body
		}
		m.Entries = append(m.Entries, &xdscorev3.CollectionEntry{
			ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: in},
		})
	}
	return m
}

// located runs a test with the authorities "a" and "b", which have a server each.
func located(t *testing.T, c xdsclient.Config, test func(sc *scene)) {
	t.Helper()
	c.Delta = true
	synctest.Test(t, func(t *testing.T) {
		sc := &scene{t: t, r: newRecord()}
		c.Authorities = map[string]xdsclient.Authority{}
		for _, name := range []string{"a", "b"} {
			f := &fake{t: t}
			sc.f = append(sc.f, f)
			s := xdsclient.Server{Name: name, Transport: f}
			c.Servers, c.Authorities[name] = append(c.Servers, s), xdsclient.Authority{Servers: []xdsclient.Server{s}}
		}
		sc.s = source(t, c)
		test(sc)
	})
}

// Proves XN-10 with the scripts collections of internal/wire and indirect of
// internal/wire/client: a redirect is followed to another authority, on to where that
// leads, and to another place when it changes; the watcher is told of what is found.
func TestRedirect(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		cancel := sc.watch(cdsType(), clusterA+"x")
		a := sc.f[0].stream(1)
		a.expect("CDS +[" + clusterA + "x] node")
		a.answer(holds(t, clusterA+"x>"+clusterB+"y"))
		sc.r.expect(t)
		b := sc.f[1].stream(1)
		b.expect("CDS +[" + clusterB + "y] node")
		b.answer(holds(t, clusterB+"y=1"))
		sc.r.expect(t, clusterA+"x=1")
		b.answer(holds(t, clusterB+"y=2"))
		sc.r.expect(t, clusterA+"x=2")
		// One that comes later is told at once.
		late := newRecord()
		found := ""
		stop := xdsclient.Watch(sc.s, cdsType(), clusterA+"x", xdsclient.Funcs[string]{Change: func(u xdsclient.Update[string]) { found = u.Found + " " + u.Server }})
		stopLate := xdsclient.Watch(sc.s, cdsType(), clusterA+"x", plainly(late))
		late.expect(t, clusterA+"x=2")
		if found != clusterB+"y b" {
			t.Errorf("found %q", found)
		}
		stop()
		stopLate()
		// Another hop, on the server that is there already.
		b.answer(holds(t, clusterB+"y>"+clusterB+"z"))
		synctest.Wait()
		time.Sleep(time.Second)
		b.answer(holds(t, clusterB+"z=3"))
		sc.r.expect(t, clusterA+"x=3")
		// What it is redirected to is gone, comes again, and is passed over.
		b.answer(holds(t, "-"+clusterB+"z"))
		sc.r.expect(t, clusterA+"x: missing")
		b.answer(holds(t, clusterB+"z=4"))
		sc.r.expect(t, clusterA+"x=4")
		a.answer(holds(t, clusterA+"x=5"))
		sc.r.expect(t, clusterA+"x=5")
		time.Sleep(5 * time.Second)
		if b.open() {
			t.Error("a stream is open that no redirect leads to")
		}
		a.answer(holds(t, "-"+clusterA+"x"))
		sc.r.expect(t, clusterA+"x: missing")
		cancel()
		time.Sleep(5 * time.Second)
		if a.open() {
			t.Error("a stream is open that nobody needs")
		}
	})
}

// What redirects and list collections lead to is validated by the names that watchers
// know it by. Partly proves XN-08, XN-10.
func TestValidatedNames(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		names := newRecord()
		cds := cdsType()
		cds.Validate = func(name, _, value string) error { names.add("%s=%s", name, value); return nil }
		for _, name := range []string{clusterA + "x", clusterA + "z", clusterB + "y", clusterA + "g/*", clusterA + "r", clusterB + "h/*", listA + "l", listA + "m#entry=in"} {
			sc.watch(cds, name)
		}
		a := sc.f[0].stream(1)
		a.answer(holds(t, clusterA+"x>"+clusterB+"y", clusterA+"g/1>"+clusterB+"v", clusterA+"g/2=2", clusterA+"z>"+clusterB+"w", clusterA+"r>"+clusterB+"h/1",
			listA+"l["+clusterB+"u in=3]", listA+"m>"+listB+"m"))
		b := sc.f[1].stream(1)
		synctest.Wait()
		time.Sleep(time.Second)
		b.answer(holds(t, clusterB+"y=4", clusterB+"v=5", clusterB+"w=6", clusterB+"u=7", clusterB+"h/1=0", listB+"m[in=8 out=9]"))
		synctest.Wait()
		got := names.take()
		slices.Sort(got)
		want := []string{
			clusterA + "g/1=5", clusterA + "g/2=2", clusterA + "r=0", clusterA + "x=4", clusterA + "z=6", clusterB + "h/1=0", clusterB + "u=7", clusterB + "y=4",
			listA + "l#entry=in=3", listA + "m#entry=in=8", listB + "m#entry=in=8", listB + "m#entry=out=9",
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("validated as\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// Redirects that go round in a circle, or are too many, are an error; 8 are not.
// Partly proves XN-10.
func TestRedirectLimit(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), clusterA+"0")
		a := sc.f[0].stream(1)
		for i := range 8 {
			a.answer(holds(t, fmt.Sprintf("%s%d>%s%d", clusterA, i, clusterA, i+1)))
			sc.r.expect(t)
			time.Sleep(time.Second)
		}
		a.answer(holds(t, clusterA+"8=end"))
		sc.r.expect(t, clusterA+"0=end")
		a.answer(holds(t, clusterA+"8>"+clusterA+"9"))
		sc.r.expect(t, clusterA+"0: redirected")
		a.answer(holds(t, clusterA+"1>"+clusterA+"0"))
		time.Sleep(time.Second)
		sc.r.expect(t, clusterA+"0: redirected")
		a.answer(holds(t, clusterA+"1>"+clusterA+"1"))
		time.Sleep(time.Second)
		sc.r.expect(t, clusterA+"0: redirected")
		a.answer(holds(t, clusterA+"1=good"))
		sc.r.expect(t, clusterA+"0=good")
	})
}

// A redirect that cannot be followed is refused, or an error of its watch.
// Partly proves XN-10.
func TestRedirectRefused(t *testing.T) {
	for to, want := range map[string]string{
		"xdstp://a/envoy.config.listener.v3.Listener/x": "has type envoy.config.listener.v3.Listener",
		listA + "l":    "names a list collection where one resource is expected",
		clusterB + "*": "names a glob collection",
	} {
		located(t, xdsclient.Config{}, func(sc *scene) {
			sc.watch(cdsType(), clusterA+"x")
			st := sc.f[0].stream(1)
			st.answer(holds(t, clusterA+"x>"+to))
			if got := strings.Join(st.got(), "\n"); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want a NACK with %q", to, got, want)
			}
			sc.r.expect(t, clusterA+"x: rejected")
		})
	}
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), clusterA+"x")
		sc.f[0].stream(1).answer(holds(t, clusterA+"x>xdstp://nobody/envoy.config.cluster.v3.Cluster/y"))
		sc.misused(clusterA + "x")
	})
	bubble(t, 1, xdsclient.Config{Delta: true, AnyAuthority: true}, func(sc *scene) {
		sc.watch(cdsType(), clusterA+"x")
		st := sc.f[0].stream(1)
		st.answer(holds(t, clusterA+"x>"+clusterB+"y"))
		sc.misused(clusterA + "x") // the source is for the authority a
		st.answer(holds(t, clusterA+"x>"+clusterA+"y", clusterA+"y=1"))
		time.Sleep(time.Second)
		st.answer(holds(t, clusterA+"y=1"))
		sc.r.expect(t, clusterA+"x=1")
	})
	direct := cdsType()
	direct.Direct = true
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.watch(direct, clusterA+"x")
		sc.watch(direct, clusterA+"x#alt="+clusterB+"x")
		sc.watch(direct, listA+"l")
		sc.misused(clusterA+"x#alt="+clusterB+"x", listA+"l")
		st := sc.f[0].stream(1)
		st.answer(holds(t, clusterA+"x>"+clusterB+"y"))
		if got := strings.Join(st.got(), "\n"); !strings.Contains(got, "not built into this program") {
			t.Errorf("%s, want a NACK", got)
		}
	})
}

// misused expects watches to be told that they cannot be served.
func (sc *scene) misused(names ...string) {
	sc.t.Helper()
	synctest.Wait()
	lines := sc.r.take()
	for i, name := range names {
		if i >= len(lines) || !strings.HasPrefix(lines[i], name+": ") || !strings.Contains(lines[i], xdsclient.ErrMisused.Error()) {
			sc.t.Errorf("callbacks %q, want errors of %q", lines, names)
		}
	}
}

// Members of a glob collection may be redirected, the collection itself is no resource.
// Partly proves XN-10.
func TestRedirectedMember(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), clusterA+"g/*")
		a := sc.f[0].stream(1)
		a.answer(holds(t, clusterA+"g/1=1", clusterA+"g/2>"+clusterB+"y"))
		sc.r.expect(t, clusterA+"g/1=1")
		b := sc.f[1].stream(1)
		b.answer(holds(t, clusterB+"y=2"))
		sc.r.expect(t, clusterA+"g/2=2")
		b.answer(holds(t, clusterB+"y=3"))
		sc.r.expect(t, clusterA+"g/2=3")
		a.answer(holds(t, clusterA+"g/2=4", clusterA+"g/1>"+clusterB+"y"))
		time.Sleep(time.Second)
		b.answer(holds(t, clusterB+"y=3"))
		sc.r.expect(t, clusterA+"g/2=4", clusterA+"g/1=3")
		a.answer(holds(t, "-"+clusterA+"g/1"))
		sc.r.expect(t, clusterA+"g/1: missing")
		b.answer(holds(t, clusterB+"y=5"))
		sc.r.expect(t)
	})
}

// Proves XN-08 with the script collections of internal/wire and indirect of
// internal/wire/client: locators are fetched as single resources, inline entries are there;
// an entry has a name.
func TestListCollection(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), listA+"l")
		entry := newRecord()
		xdsclient.Watch(sc.s, cdsType(), listA+"l#entry=in", plainly(entry))
		a := sc.f[0].stream(1)
		a.expect("CDS +[" + listA + "l] node")
		a.answer(holds(t, listA+"l["+clusterA+"x "+clusterB+"y in=1 :own=2]"))
		sc.r.expect(t, listA+"l#entry=in=1", listA+"l#own=2")
		entry.expect(t, listA+"l#entry=in=1")
		a.expect("CDS n=n +[" + clusterA + "x]")
		a.answer(holds(t, clusterA+"x=3"))
		b := sc.f[1].stream(1)
		b.expect("CDS +[" + clusterB + "y] node")
		b.answer(holds(t, clusterB+"y=4"))
		sc.r.expect(t, clusterA+"x=3", clusterB+"y=4")

		// Only what has changed is told, whatever the order.
		a.answer(holds(t, listA+"l[in=5 "+clusterB+"y :own=2 new=6]"))
		sc.r.expect(t, listA+"l#entry=in=5", listA+"l#entry=new=6", clusterA+"x: missing")
		entry.expect(t, listA+"l#entry=in=5")
		a.answer(holds(t, listA+"l["+clusterB+"y :own=2 new=6]"))
		sc.r.expect(t, listA+"l#entry=in: missing")
		entry.expect(t, listA+"l#entry=in: missing")

		late := newRecord()
		whole := plainly(late)
		whole.Settled = func() { late.add("settled") }
		stop := xdsclient.Watch(sc.s, cdsType(), listA+"l", whole)
		late.expect(t, clusterB+"y=4", listA+"l#own=2", listA+"l#entry=new=6", "settled")
		stop()

		// The collection is redirected, and its members stay until another has come.
		a.answer(holds(t, listA+"l>"+listB+"m"))
		sc.r.expect(t)
		time.Sleep(time.Second)
		b.answer(holds(t, listB+"m["+clusterB+"y in=7]"))
		sc.r.expect(t, listB+"m#entry=in=7", listA+"l#entry=new: missing", listA+"l#own: missing")
		entry.expect(t, listA+"l#entry=in=7")
		b.answer(holds(t, "-"+listB+"m"))
		sc.r.expect(t, clusterB+"y: missing", listB+"m#entry=in: missing", listA+"l: missing")
		entry.expect(t, listA+"l#entry=in: missing")
	})
}

// A bad inline entry is refused as a resource is: the server is told, the version before
// it stays, and the rest of the collection is used. Partly proves XN-08.
func TestBadEntries(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), listA+"l")
		a := sc.f[0].stream(1)
		a.answer(holds(t, listA+"l[x=1 y=bad]"))
		sc.r.expect(t, listA+"l#entry=x=1", listA+"l#entry=y: rejected")
		if got := strings.Join(a.got(), "\n"); !strings.Contains(got, "error="+listA+"l: entries[1]: "+listA+"l#entry=y: alt_stat_name: must not be bad") {
			t.Errorf("the NACK is %s", got)
		}
		a.answer(holds(t, listA+"l[x=bad y=2]"))
		sc.r.expect(t, listA+"l#entry=x ~ rejected", listA+"l#entry=y=2")
		a.answer(holds(t, listA+"l[x=bad y=3]"))
		sc.r.expect(t, listA+"l#entry=y=3")
		if got := strings.Join(a.got(), "\n"); strings.Count(got, "error=") != 2 {
			t.Errorf("the answers are %s, want two NACKs", got)
		}
		a.answer(holds(t, listA+"l[x=1 y=3]"))
		sc.r.expect(t, listA+"l#entry=x ~ <nil>")
		for _, whole := range []string{"[x=1 x=2]", "[" + clusterA + "1 " + clusterA + "1]", "[" + listB + "m]", "[" + clusterA + "*]"} {
			a.got()
			a.answer(holds(t, listA+"l"+whole))
			if got := strings.Join(a.got(), "\n"); !strings.Contains(got, "error="+listA+"l: entries[") {
				t.Errorf("the answer to %s is %s", whole, got)
			}
			sc.r.take()
		}
	})
}

// Proves XN-09 with TestListsAndRedirectsOfAServer: structured names and list collections in
// SotW.
func TestSotwList(t *testing.T) {
	c := xdsclient.Config{Authorities: map[string]xdsclient.Authority{"a": {}}}
	bubble(t, 1, c, func(sc *scene) {
		sc.watch(cdsType(), listA+"l")
		st := sc.f[0].stream(1)
		st.expect("CDS [" + listA + "l] node")
		r := holds(t, listA+"l["+clusterA+"x in=1]")
		r.Version = "1"
		st.answer(r)
		sc.r.expect(t, listA+"l#entry=in=1")
		st.expect("CDS v=1 n=n [" + clusterA + "x " + listA + "l]")
		r = holds(t, listA+"l["+clusterA+"x in=1]", clusterA+"x=2")
		r.Version = "2"
		st.answer(r)
		sc.r.expect(t, clusterA+"x=2")
		r = holds(t, clusterA+"x=2")
		r.Version = "3"
		st.answer(r) // which leaves the collection out
		sc.r.expect(t, clusterA+"x: missing", listA+"l#entry=in: missing", listA+"l: missing")
	})
}

// Fetch waits for all members of a list collection.
func TestFetchList(t *testing.T) {
	located(t, xdsclient.Config{}, func(sc *scene) {
		type result struct {
			got map[string]string
			err error
		}
		done := make(chan result, 1)
		go func() {
			got, err := xdsclient.Fetch(sc.t.Context(), sc.s, cdsType(), listA+"l")
			done <- result{got, err}
		}()
		a := sc.f[0].stream(1)
		a.answer(holds(t, listA+"l["+clusterA+"x "+clusterA+"y in=1]"))
		a.answer(holds(t, clusterA+"x=2"))
		if synctest.Wait(); len(done) > 0 {
			t.Error("a member is not there yet")
		}
		a.answer(holds(t, "-"+clusterA+"y"))
		r := <-done
		if fmt.Sprint(r.got) != fmt.Sprint(map[string]string{clusterA + "x": "2", listA + "l#entry=in": "1"}) || !errors.Is(r.err, xdsclient.ErrMissing) {
			t.Errorf("got %v, %v", r.got, r.err)
		}
	})
}
