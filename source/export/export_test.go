package export_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source/export"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	clientfile "github.com/xebec-proxy/xebec/xdsclient/file"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func resource(t *testing.T, name string, m proto.Message, opts ...xds.Option) *xds.Resource {
	t.Helper()
	r, err := xds.Marshal(name, m, opts...)
	must(t, err)
	return r
}

func with(t *testing.T, s *snapshot.Snapshot, c snapshot.Changes) *snapshot.Snapshot {
	t.Helper()
	next, _, err := s.With(c)
	must(t, err)
	return next
}

const (
	clusterURN = "xdstp://a/envoy.config.cluster.v3.Cluster/"
	listURN    = "xdstp://a/envoy.config.cluster.v3.ClusterCollection/all"
)

func cluster(name, stat string) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, AltStatName: stat}
}

// group is one of each kind of resource.
func group(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	redirect, err := proto.Marshal(&xdscorev3.ResourceLocator{ResourceType: "envoy.config.cluster.v3.Cluster", Id: "y"})
	must(t, err)
	list := &listenerv3.ListenerCollection{}
	for _, id := range []string{"x", "y"} {
		l := &xdscorev3.ResourceLocator{ResourceType: "envoy.config.cluster.v3.Cluster", Id: id}
		list.Entries = append(list.Entries, &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: l}})
	}
	all, err := proto.Marshal(list)
	must(t, err)
	return with(t, snapshot.New(), snapshot.Changes{Set: []*xds.Resource{
		resource(t, "a", cluster("a", "1")), resource(t, "b", cluster("b", "1"), xds.WithVersion("v7")),
		resource(t, clusterURN+"c", cluster("own", "1")),
		xds.NewResource(xds.ClusterType, clusterURN+"d", redirect, xds.WithBodyType(xds.LocatorType)),
		xds.NewResource(xds.ClusterType, listURN, all, xds.WithBodyType(xds.CollectionType(xds.ClusterType))),
		resource(t, "l", &listenerv3.Listener{Name: "l", ApiListener: &listenerv3.ApiListener{}}),
		resource(t, "a", &endpointv3.ClusterLoadAssignment{ClusterName: "a"}),
		resource(t, "../.b/?#ü", &endpointv3.ClusterLoadAssignment{ClusterName: "../.b/?#ü"}, xds.WithAliases("alias")),
		resource(t, strings.Repeat("long/", 90)+"1", &endpointv3.ClusterLoadAssignment{ClusterName: strings.Repeat("long/", 90) + "1"}),
		resource(t, strings.Repeat("long/", 90)+"2", &endpointv3.ClusterLoadAssignment{ClusterName: strings.Repeat("long/", 90) + "2"}),
		resource(t, ".r", &routev3.RouteConfiguration{Name: ".r"}),
		resource(t, "s", &tlsv3.Secret{Name: "s"}),
	}})
}

// files are what a directory holds, with their contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		m[filepath.ToSlash(rel)] = string(data)
		return err
	}))
	return m
}

// loaded is what xebec serve would serve of a directory.
func loaded(t *testing.T, dir string) *snapshot.Snapshot {
	t.Helper()
	b, findings, err := file.Load(dir, file.WithLenient(true))
	must(t, err)
	for _, f := range findings {
		if f.Code == "duplicate" || strings.Contains(f.Code, "unknown") {
			t.Error(f)
		}
	}
	return with(t, snapshot.New(), b.Groups[file.DefaultGroup])
}

// Proves XF-08 with TestClientsRead and TestExporter: what is written is served again
// as it was, whatever it is and is called; changes and removals too.
func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "out")
	w, err := export.New(dir)
	must(t, err)
	s := group(t)
	check := func(s *snapshot.Snapshot) {
		t.Helper()
		must(t, w.Write(s))
		if diff := loaded(t, dir).Diff(s); len(diff) > 0 {
			t.Fatalf("what is loaded differs: %v", diff)
		}
	}
	check(s)
	s = with(t, s, snapshot.Changes{
		Set:    []*xds.Resource{resource(t, "a", cluster("a", "2"))},
		Remove: []xds.Key{{Type: xds.ClusterType, Name: "b"}, {Type: xds.SecretType, Name: "s"}, {Type: xds.ClusterType, Name: listURN}, {Type: xds.EndpointType, Name: "a"}},
	})
	check(s)
	w, err = export.New(dir) // by another process
	must(t, err)
	s = with(t, s, snapshot.Changes{Remove: []xds.Key{{Type: xds.RouteType, Name: ".r"}}})
	check(s)
	check(with(t, s, snapshot.Changes{Replace: true}))
	if got := files(t, dir); len(got) != 3 || got["cds.json"] == "" || got["lds.json"] == "" { // a client's path has to exist
		t.Errorf("of an empty group there is %v", got)
	}
	must(t, w.Clear())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// Only files whose content changes are replaced, and nobody sees a half of one.
func TestUnchangedFilesStay(t *testing.T) {
	dir := t.TempDir()
	w, err := export.New(dir)
	must(t, err)
	s := group(t)
	must(t, w.Write(s))
	stat := func() map[string]os.FileInfo {
		m := map[string]os.FileInfo{}
		for name := range files(t, dir) {
			if m[name], err = os.Stat(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	before := stat()
	for _, other := range []bool{false, true} {
		if other {
			w, err = export.New(dir)
			must(t, err)
		}
		s = with(t, s, snapshot.Changes{Set: []*xds.Resource{resource(t, "a", &endpointv3.ClusterLoadAssignment{
			ClusterName: "a", Endpoints: make([]*endpointv3.LocalityLbEndpoints, len(before)),
		})}})
		must(t, w.Write(s))
		after := stat()
		for name, was := range before {
			if same := os.SameFile(was, after[name]); same == (name == "eds/a.json" && !other) {
				t.Errorf("another process %v: %s is the same file: %v", other, name, same)
			}
			if mode := after[name].Mode().Perm(); mode != 0o640 {
				t.Errorf("%s has mode %v", name, mode)
			}
		}
		before = after
	}
}

// A directory with something else in it is left alone, and what is put there later stays.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "mine.yaml")
	must(t, os.WriteFile(other, nil, 0o600))
	if _, err := export.New(dir); !errors.Is(err, export.ErrForeign) || !strings.Contains(err.Error(), "mine.yaml") {
		t.Errorf("the error is %v", err)
	}
	must(t, os.Remove(other))
	w, err := export.New(dir)
	must(t, err)
	must(t, w.Write(group(t)))
	must(t, os.WriteFile(other, nil, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "eds", "mine.json"), nil, 0o600))
	must(t, w.Write(snapshot.New()))
	must(t, w.Clear())
	got := files(t, dir)
	if _, a := got["mine.yaml"]; len(got) != 2 || !a {
		t.Errorf("what is left is %v", got)
	}
}

// A file that cannot be written is an error, others are written, and the next attempt
// makes up for it.
func TestFailureOfOne(t *testing.T) {
	dir := t.TempDir()
	w, err := export.New(dir)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(dir, "eds", "a.json"), 0o700))
	if err := w.Write(group(t)); err == nil || !strings.Contains(err.Error(), "eds/a.json") {
		t.Errorf("the error is %v", err)
	}
	if got := files(t, dir); got["cds.json"] == "" {
		t.Error("the others are not there")
	}
	must(t, os.Remove(filepath.Join(dir, "eds", "a.json")))
	must(t, w.Write(group(t)))
	if got := files(t, dir); got["eds/a.json"] == "" {
		t.Error("it is still not there")
	}
}

// File subscriptions read what is written, and follow it. Partly proves XF-08.
func TestClientsRead(t *testing.T) {
	dir := t.TempDir()
	w, err := export.New(dir)
	must(t, err)
	s := group(t)
	must(t, w.Write(s))
	told := make(chan string, 100)
	watch := func(path string, begin func(*xdsclient.Source)) {
		tr, err := clientfile.New(clientfile.Config{Path: filepath.Join(dir, path), MovesOnly: true})
		must(t, err)
		src, err := xdsclient.NewSource(context.WithoutCancel(t.Context()), xdsclient.Config{
			PerType: true, Servers: []xdsclient.Server{{Name: path, Transport: tr}},
		})
		must(t, err)
		t.Cleanup(func() { must(t, src.Close()) })
		begin(src)
	}
	watch("cds.json", func(src *xdsclient.Source) {
		xdsclient.Watch(src, xdsclient.Clusters(), xdsclient.Wildcard, xdsclient.Funcs[*clusterv3.Cluster]{
			Change:   func(u xdsclient.Update[*clusterv3.Cluster]) { told <- u.Name + "=" + u.Value.GetAltStatName() },
			Error:    func(name string, _ error) { told <- name + " gone" },
			Response: func(r xdsclient.Response) { told <- "response " + r.Version },
		})
	})
	watch("eds/a.json", func(src *xdsclient.Source) {
		xdsclient.Watch(src, xdsclient.Endpoints(), "a", xdsclient.Funcs[*endpointv3.ClusterLoadAssignment]{
			Change: func(u xdsclient.Update[*endpointv3.ClusterLoadAssignment]) { told <- "endpoints " + u.Name },
		})
	})
	await := func(want ...string) {
		t.Helper()
		for timeout := time.After(10 * time.Second); len(want) > 0; {
			select {
			case got := <-told:
				want = slices.DeleteFunc(want, func(s string) bool { return s == got })
			case <-timeout:
				t.Fatalf("waited in vain for %q", want)
			}
		}
	}
	await("a=1", "b=1", "endpoints a", "response "+s.Set(xds.ClusterType).Version())
	s = with(t, s, snapshot.Changes{Set: []*xds.Resource{resource(t, "a", cluster("a", "2"))}, Remove: []xds.Key{{Type: xds.ClusterType, Name: "b"}}})
	must(t, w.Write(s))
	await("a=2", "b gone")
}
