package routecheck

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	_ "github.com/xebec-proxy/xebec/internal/alltypes" // so that per-filter configuration of every type is understood
	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/filters/standard"
	"github.com/xebec-proxy/xebec/xds"
)

// Options say how a table is made.
type Options struct {
	// RouteConfig is the name of the route configuration if the file has several.
	RouteConfig string
	// Logger gets warnings; nil: nobody does.
	Logger *slog.Logger
	// Getenv reads the environment for configurations that name it.
	Getenv func(string) (string, bool)
}

// Table is a route table and the runtime key that is on.
type Table struct {
	*route.Table
	runtime string
}

// Load makes a table of a file: a RouteConfiguration, with or without @type, a
// list of resources, or a bootstrap whose static listeners have one.
func Load(name string, o Options) (*Table, error) {
	cfg, err := read(name, o.RouteConfig)
	if err != nil {
		return nil, err
	}
	var r filter.Registry
	if err := standard.Register(&r); err != nil {
		return nil, err
	}
	t := &Table{}
	env := &route.Env{
		Registry: &r, FilterEnv: &filter.Env{Logger: o.Logger, ReadFile: os.ReadFile, Getenv: o.Getenv},
		Formatter: func(text string) (route.Formatter, error) {
			return format.ParseWith(text, format.Options{OmitEmpty: true})
		},
		FormatString: func(f *corev3.SubstitutionFormatString) (route.Formatter, error) {
			l, err := format.ParseString(f, format.Options{ReadFile: os.ReadFile, Environment: o.Getenv})
			return format.Body{Line: l}, err
		},
		ReadFile: os.ReadFile, Getenv: o.Getenv, Checking: true, Logger: o.Logger,
		// As in Envoy's tool, a fraction with a key is off unless a test turns the
		// key on; then the fraction's default holds.
		Runtime: func(key string) (uint32, uint32, bool) { return 0, 100, key != t.runtime },
	}
	if t.Table, err = route.New(cfg, env); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// read finds the route configuration in a file.
func read(name, want string) (*routev3.RouteConfiguration, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w; give a file with a route configuration or a bootstrap", err)
	}
	keys := topKeys(name, data)
	if !keys["@type"] && !keys["resources"] && !keys["static_resources"] {
		cfg := &routev3.RouteConfiguration{}
		_, problems := configload.Message(name, data, cfg)
		return cfg, problemsError(problems)
	}
	all, problems := routeConfigs(name, data, keys["static_resources"])
	if len(problems) > 0 {
		return nil, problemsError(problems)
	}
	return choose(name, want, all)
}

func problemsError(ps []*xds.ResourceError) error {
	var errs []error
	for _, p := range ps {
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// topKeys are the names at the top of a YAML or JSON file.
func topKeys(name string, data []byte) map[string]bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
	default:
		return nil
	}
	var top map[string]yaml.Node
	if yaml.Unmarshal(data, &top) != nil {
		return nil // the loader tells what is wrong
	}
	keys := map[string]bool{}
	for k := range top {
		keys[k] = true
	}
	return keys
}

func routeConfigs(name string, data []byte, bootstrap bool) ([]*routev3.RouteConfiguration, []*xds.ResourceError) {
	var all []*routev3.RouteConfiguration
	if !bootstrap {
		resources, problems := configload.File(name, data)
		for _, r := range resources {
			if cfg, ok := r.Message.(*routev3.RouteConfiguration); ok {
				all = append(all, cfg)
			}
		}
		return all, problems
	}
	var b bootstrapv3.Bootstrap
	if _, problems := configload.Message(name, data, &b); len(problems) > 0 {
		return nil, problems
	}
	for _, l := range b.GetStaticResources().GetListeners() {
		for _, c := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
			for _, f := range c.GetFilters() {
				var m hcmv3.HttpConnectionManager
				a := f.GetTypedConfig()
				if a.MessageName() == m.ProtoReflect().Descriptor().FullName() && proto.Unmarshal(a.GetValue(), &m) == nil && m.GetRouteConfig() != nil {
					all = append(all, m.GetRouteConfig())
				}
			}
		}
	}
	return all, nil
}

func choose(name, want string, all []*routev3.RouteConfiguration) (*routev3.RouteConfiguration, error) {
	var names []string
	var found []*routev3.RouteConfiguration
	for _, cfg := range all {
		names = append(names, fmt.Sprintf("%q", cfg.GetName()))
		if want == "" || cfg.GetName() == want {
			found = append(found, cfg)
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("%s has no route configuration: give a file that has one in it", name)
	case len(found) == 0:
		return nil, fmt.Errorf("%s has no route configuration %q: it has %s", name, want, strings.Join(names, ", "))
	case len(found) > 1:
		return nil, fmt.Errorf("%s has %d route configurations, %s: say which with --route-config", name, len(found), strings.Join(names, ", "))
	}
	return found[0], nil
}
