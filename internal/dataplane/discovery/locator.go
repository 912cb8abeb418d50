package discovery

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsclient/file"
)

// whole is where all resources of a type come from.
type whole struct {
	source *corev3.ConfigSource // nil: from nowhere
	name   string               // the wildcard, or a collection's
	// list says that it is a list collection of a server, or an entry of one.
	list bool
}

// whole finds it: a config source, or the collection that a locator names (XN-13).
// kind is "cds" or "lds".
func (d *Discovery) whole(kind string, c *corev3.ConfigSource, locator, typeURL string) (w whole, err error) {
	path := "dynamic_resources." + kind
	switch {
	case locator == "" && c == nil:
		return whole{}, nil
	case locator == "":
		return whole{source: c, name: xdsclient.Wildcard}, d.check(path+"_config", c, typeURL)
	case strings.HasPrefix(locator, "file:"):
		w, err = d.inFile(locator)
	default:
		w, err = d.ofServer(c, locator, typeURL)
	}
	if err == nil {
		_, err = d.source(w.source, typeURL, "")
	}
	if err != nil {
		err = fmt.Errorf("%s_resources_locator: %w", path, err)
	}
	return w, err
}

// inFile is a list collection in a file (XF-07).
func (d *Discovery) inFile(locator string) (whole, error) {
	name, err := file.CollectionPath(locator)
	if err != nil {
		return whole{}, err //nolint:wrapcheck // it says all
	}
	d.collections[name] = true
	in := &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{Path: name}}
	return whole{source: &corev3.ConfigSource{ConfigSourceSpecifier: in}, name: xdsclient.Wildcard}, nil
}

var errNotDelta = errors.New("collections are discovered with delta xDS only: write api_type: DELTA_GRPC, or ads if ads_config has it")

// CheckGlob says what is wrong with the name of a glob collection.
func CheckGlob(name, typeURL string) error {
	u, err := xds.ParseURN(name)
	if err == nil {
		err = u.CheckType(typeURL)
	}
	if err == nil && !u.IsGlob() {
		err = fmt.Errorf("%q is no glob collection: write a name that ends in /*", name)
	}
	return err //nolint:wrapcheck // it says all
}

// ofServer is a glob or list collection of a server.
func (d *Discovery) ofServer(c *corev3.ConfigSource, locator, typeURL string) (whole, error) {
	l, err := xds.ParseLocator(locator)
	if err == nil {
		err = l.URN.CheckType(typeURL)
	}
	list := l.URN.IsListCollection()
	switch {
	case err != nil:
		return whole{}, err //nolint:wrapcheck // it says all
	case l.Alt != nil:
		return whole{}, errAlternative
	case !list && !l.URN.IsGlob():
		return whole{}, fmt.Errorf("%q is no collection: write a name that ends in /*, or that of a list, whose type ends in Collection", locator)
	}
	if c, err = d.sources.Locate(c, l.URN.String()); err != nil {
		return whole{}, err //nolint:wrapcheck // it says all
	}
	if !list && !d.delta(c) {
		return whole{}, errNotDelta
	}
	l.URN.Params = d.withNode(l.URN.Params)
	return whole{c, l.String(), list}, nil
}

var errAlternative = errors.New("alternatives (#alt=) are known but not built: name another config source for the authority")

// located is the config source that a resource comes from.
func (d *Discovery) located(c *corev3.ConfigSource, name string) *corev3.ConfigSource {
	name, _, _ = strings.Cut(name, "#")
	if found, err := d.sources.Locate(c, name); err == nil {
		return found
	}
	return c
}

// checkAuthorities looks at the sources of names by authority (BS-32).
func (d *Discovery) checkAuthorities() error {
	var errs []error
	for i, c := range d.cfg.Bootstrap.GetConfigSources() {
		errs = append(errs, d.check(fmt.Sprintf("config_sources[%d]", i), c, xds.ClusterType))
	}
	if c := d.cfg.Bootstrap.GetDefaultConfigSource(); c != nil {
		errs = append(errs, d.check("default_config_source", c, xds.ClusterType))
	}
	return errors.Join(errs...)
}
