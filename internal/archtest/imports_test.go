package archtest

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// rule says what the packages below from must not come to import.
type rule struct {
	why  string
	from []string
	// except are packages below from that the rule is not for.
	except []string
	// not are the forbidden packages, with what lies below them; "=net" is net
	// alone.
	not []string
	// direct looks at the packages' own imports only; otherwise the imports of
	// the module's packages that they import count too. everything looks into
	// other modules as well.
	direct, everything bool
}

func rules() []rule {
	return []rule{
		{
			why:  "the vocabulary stands on nothing of ours",
			from: []string{"xds"}, not: []string{module}, direct: true,
		},
		{
			why:  "who embeds the vocabulary or the snapshots links no transport",
			from: []string{"xds", "snapshot"}, not: []string{"google.golang.org/grpc", "=net/http"}, everything: true,
		},
		{
			why:  "wire and model take values and return values",
			from: []string{"internal/wire", "internal/model"},
			not:  []string{"=net", "net/http", "=os", "os/exec", "google.golang.org/grpc", "github.com/fsnotify/fsnotify"},
		},
		{
			why:  "wire and model are owned by their caller",
			from: []string{"internal/wire", "internal/model"}, not: []string{"sync"}, direct: true,
		},
		{
			why:  "the four products stand side by side",
			from: []string{"xdsserver"}, not: ourPackages("xdsclient", "proxy", "grpcxds"),
		},
		{
			why:  "the four products stand side by side",
			from: []string{"xdsclient"}, not: ourPackages("xdsserver", "proxy", "grpcxds"),
		},
		{
			why:  "the proxy uses the client library only",
			from: []string{"proxy"}, not: ourPackages("xdsserver", "grpcxds"),
		},
		{
			why:  "proxyless gRPC uses the client library only",
			from: []string{"grpcxds"}, not: ourPackages("xdsserver", "proxy"),
		},
		{
			why:  "a server serves what it is handed, from wherever that comes",
			from: []string{"xdsserver"}, not: ourPackages("source/file", "source/etcd", "internal/configload", "validate"),
		},
		{
			why:  "what other programs embed knows no command line",
			from: []string{""}, except: []string{"cmd", "internal/cli"},
			not: append(ourPackages("internal/cli"), "github.com/spf13/cobra", "github.com/spf13/pflag"),
		},
		{
			why:  "every type of Envoy costs 23 MB: only the binary links them",
			from: []string{""}, except: []string{"cmd", "internal/cli", "internal/app", "internal/alltypes"},
			not: ourPackages("internal/alltypes"),
		},
		{
			why:  "the examples prove that the public packages are enough",
			from: []string{"examples"}, not: ourPackages("internal", "cmd"), direct: true,
		},
		{
			why:  "a second generated copy of Envoy's messages panics at start-up",
			from: []string{""}, not: []string{"github.com/envoyproxy/go-control-plane/pkg", "istio.io/api"}, everything: true,
		},
		{
			why:  "test tools stay out of the binary",
			from: []string{"cmd"},
			not:  append(ourPackages("xdstest"), "testing", "pgregory.net/rapid", "go.uber.org/goleak"), everything: true,
		},
	}
}

func ourPackages(paths ...string) []string {
	for i, p := range paths {
		paths[i] = module + "/" + p
	}
	return paths
}

// covers reports whether the rule is for a package of ours.
func (r rule) covers(path string) bool {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	below := func(root string) bool { return root == "" || under(rel, root) }
	return slices.ContainsFunc(r.from, below) && !slices.ContainsFunc(r.except, below)
}

func (r rule) forbids(path string) bool {
	return slices.ContainsFunc(r.not, func(no string) bool {
		if exact, ok := strings.CutPrefix(no, "="); ok {
			return path == exact
		}
		return under(path, no)
	})
}

// follows reports whether the rule looks at what a package imports in turn. An
// excepted package answers for itself.
func (r rule) follows(path string) bool {
	switch {
	case r.direct:
		return false
	case ours(path):
		return len(r.except) == 0 || r.covers(path)
	}
	return r.everything
}

// broken lists the chains of imports that break a rule.
func (r rule) broken(g graph) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(g)) {
		if !ours(path) || !r.covers(path) {
			continue
		}
		if chain := g.path(path, r.forbids, r.follows); chain != nil {
			out = append(out, strings.Join(chain, " → "))
		}
	}
	return out
}

func TestImports(t *testing.T) {
	g := load(t)
	for _, r := range rules() {
		for _, chain := range r.broken(g) {
			t.Errorf("%s: %s", r.why, chain)
		}
	}
}

// TestRulesBite breaks each rule on purpose, so that a rule that matches
// nothing cannot pass for one that is kept.
func TestRulesBite(t *testing.T) {
	for i, r := range rules() {
		bad := strings.TrimPrefix(r.not[0], "=")
		from := strings.TrimSuffix(module+"/"+r.from[0], "/")
		g := graph{from: {ImportPath: from, Imports: []string{"fmt", bad}}}
		if len(r.broken(g)) != 1 {
			t.Errorf("rule %d (%s) does not notice %s → %s", i, r.why, from, bad)
		}
		middle := module + "/snapshot"
		g = graph{
			from:   {ImportPath: from, Imports: []string{middle}},
			middle: {ImportPath: middle, Imports: []string{bad}},
		}
		found := slices.ContainsFunc(r.broken(g), func(chain string) bool { return strings.HasPrefix(chain, from+" ") })
		if want := !r.direct || under(middle, strings.TrimPrefix(r.not[0], "=")); found != want {
			t.Errorf("rule %d (%s) through %s: noticed %v, want %v", i, r.why, middle, found, want)
		}
	}
}

func TestPackageNames(t *testing.T) {
	bad := []string{"util", "utils", "common", "helper", "helpers", "types", "base", "manager", "misc", "shared"}
	for path, p := range load(t) {
		if ours(path) && slices.Contains(bad, strings.TrimSuffix(p.Name, "_test")) {
			t.Errorf("%s: package %s says nothing of what it holds: name it after that", path, p.Name)
		}
	}
}
