package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsclient/configsource"
	"github.com/xebec-proxy/xebec/xdsclient/file"
	"github.com/xebec-proxy/xebec/xdsclient/rest"
)

// newSources makes the set of sources. Those with the same server and variant
// are one (XC-02).
func (d *Discovery) newSources(ctx context.Context, m *metrics) *configsource.Sources {
	node, _ := proto.Clone(d.cfg.Bootstrap.GetNode()).(*corev3.Node)
	return configsource.New(ctx, configsource.Config{
		Base: xdsclient.Config{
			Node: node, UserAgent: userAgent, UserAgentVersion: d.cfg.Version, Logger: d.cfg.Logger, Metrics: m,
			// The proxy itself keeps initial_fetch_timeout, by resource.
			ResourceTimeout: -1,
		},
		FileMetrics: &fileMetrics{m},
		ADS:         d.cfg.Bootstrap.GetDynamicResources().GetAdsConfig(),
		Others:      d.cfg.Bootstrap.GetConfigSources(), Default: d.cfg.Bootstrap.GetDefaultConfigSource(),
		GRPC: d.grpc, REST: d.rest, File: d.file,
	})
}

// Check tells what is wrong with a config source that something refers to, or
// not built of it. The path is its field's. Of clusters, it is one that they are
// asked of by name.
func (d *Discovery) Check(path string, c *corev3.ConfigSource, typeURL string) error {
	if !d.delta(c) {
		switch typeURL {
		case xds.VirtualHostType:
			return fmt.Errorf("%s: vhds: only 'DELTA_GRPC' or 'ADS' (which uses Delta xDS) is supported as a config source.", path) //nolint:staticcheck,revive // Envoy's text
		case xds.ClusterType:
			return fmt.Errorf("%s: clusters are discovered on demand with delta xDS only: write api_type: DELTA_GRPC, or ads if ads_config has it", path)
		}
	}
	_, err := d.wanting(c, typeURL, "")
	return at(path, err)
}

// CheckCollection tells what is wrong with the config source of a glob collection,
// or with that which the collection's authority leads to.
func (d *Discovery) CheckCollection(path string, c *corev3.ConfigSource, typeURL, name string) error {
	c, err := d.sources.Locate(c, name)
	if err == nil && !d.delta(c) {
		err = errNotDelta
	}
	if err == nil {
		_, err = d.source(c, typeURL, "")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (d *Discovery) check(path string, c *corev3.ConfigSource, typeURL string) error {
	_, err := d.source(c, typeURL, "")
	return at(path, err)
}

// delta reports whether a config source has the incremental variant.
func (d *Discovery) delta(c *corev3.ConfigSource) bool {
	a := c.GetApiConfigSource()
	if c.GetAds() != nil {
		a = d.cfg.Bootstrap.GetDynamicResources().GetAdsConfig()
	}
	t := a.GetApiType()
	return t == corev3.ApiConfigSource_DELTA_GRPC || t == corev3.ApiConfigSource_AGGREGATED_DELTA_GRPC
}

// source is where a config source leads for a resource; the name may lead elsewhere
// (BS-32).
func (d *Discovery) source(c *corev3.ConfigSource, typeURL, name string) (configsource.Resolved, error) {
	return d.sources.For(c, typeURL, name, nil) //nolint:wrapcheck // it names the field
}

// wanting is where a config source leads for resources that are wanted by name.
func (d *Discovery) wanting(c *corev3.ConfigSource, typeURL, name string) (configsource.Resolved, error) {
	switch {
	case typeURL == xds.ClusterType && c.GetAds() == nil:
		return d.demanded.For(c, typeURL, "", nil) //nolint:wrapcheck // it names the field
	case typeURL == xds.ClusterType || typeURL == xds.VirtualHostType:
		name = "" // clients make up a part of it
	}
	if xds.IsURN(name) {
		l, err := xds.ParseLocator(name)
		if err == nil && l.Alt != nil {
			err = errAlternative
		}
		if err != nil {
			return configsource.Resolved{}, err //nolint:wrapcheck // it says all
		}
		name = l.URN.String()
	}
	return d.source(c, typeURL, name)
}

// Warming says whether clusters are warming, after the first configuration. Until
// none is, a server gets no answer to the clusters it has sent (XS-69), also if
// they come on a stream of their own, for it may keep an order among streams
// (XS-75). It does not block.
func (d *Discovery) Warming(yes bool) {
	s := d.clusterStream.Load()
	switch {
	case s == nil:
	case yes:
		s.Withhold(xds.ClusterType)
	default:
		s.Resume(xds.ClusterType)
	}
}

// streamed reports whether a config source is a stream, with everything or with
// one type.
func streamed(c *corev3.ConfigSource) bool {
	switch c.GetApiConfigSource().GetApiType() {
	case corev3.ApiConfigSource_GRPC, corev3.ApiConfigSource_DELTA_GRPC,
		corev3.ApiConfigSource_AGGREGATED_GRPC, corev3.ApiConfigSource_AGGREGATED_DELTA_GRPC:
		return true
	}
	return c.GetAds() != nil
}

func (d *Discovery) checkCluster(name string) error {
	if !d.cfg.Cluster(name) {
		return fmt.Errorf("static_resources has no cluster '%s'", name)
	}
	return nil
}

// rest is a transport that polls over connections to a cluster of the bootstrap.
func (d *Discovery) rest(a *corev3.ApiConfigSource, cluster string) (xdsclient.Transport, error) {
	if err := d.checkCluster(cluster); err != nil {
		return nil, err
	}
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx, cluster, "http/1.1") },
		// One poll at a time.
		MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}
	out, err := rest.New(rest.Config{
		RefreshDelay: a.GetRefreshDelay().AsDuration(), RequestTimeout: a.GetRequestTimeout().AsDuration(),
		Targets: []rest.Target{{URL: "http://" + cluster, RoundTripper: t}}, Logger: d.cfg.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	return out, nil
}

// file is a transport that follows a file.
func (d *Discovery) file(p *corev3.PathConfigSource) (xdsclient.Transport, error) {
	t, err := file.New(file.Config{
		Path: p.GetPath(), WatchedDirectory: p.GetWatchedDirectory().GetPath(), MovesOnly: true, Collection: d.collections[p.GetPath()], Logger: d.cfg.Logger,
		KeepFileNames: true, // the proxy watches what secrets name, wherever they come from
		Useless:       func(typeURL string, _ error) { d.useless(p.GetPath(), typeURL) },
	})
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	return t, nil
}

var errNoCluster = errors.New("there is no such cluster")

// dial opens a connection to a cluster.
func (d *Discovery) dial(ctx context.Context, cluster, alpn string) (net.Conn, error) {
	conn, ok, err := d.cfg.Dial(ctx, cluster, alpn)
	if !ok {
		return nil, fmt.Errorf("cluster '%s': %w", cluster, errNoCluster)
	}
	return conn, err
}
