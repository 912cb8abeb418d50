package proxy

import (
	"context"
	"fmt"
	"net"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/discovery"
)

// managed is the Discovery of a bootstrap that says itself where resources are
// to be had.
type managed struct{ *discovery.Discovery }

// Start implements Discovery.
func (m managed) Start(ctx context.Context, r *Resources) error {
	m.Discovery.Start(ctx, r)
	return nil
}

// sourceChecker is a Discovery that knows which config sources it can use.
type sourceChecker interface {
	Check(path string, c *corev3.ConfigSource, typeURL string) error
}

// collectionChecker is a Discovery that knows which collections it can bring.
type collectionChecker interface {
	CheckCollection(path string, c *corev3.ConfigSource, typeURL, name string) error
}

// warmingWatcher is a Discovery that is told whether clusters are warming, from
// the end of initialization on, with the configuration locked.
type warmingWatcher interface{ Warming(yes bool) }

// awaiter is a Discovery that can say when a resource has been sent again, and ask
// for that. Both are called with the configuration locked; Await says whether it
// will be sent again by a call of the Set… method, though it did not change.
type awaiter interface {
	Await(typeURL, name string, source *corev3.ConfigSource) bool
	AskAgain(typeURL, name string, source *corev3.ConfigSource)
}

// waiter is a Discovery that says when it has ended.
type waiter interface{ Wait() }

// manage makes the bootstrap's Discovery, unless the program has its own.
func (p *Proxy) manage() error {
	if p.o.Discovery != nil {
		return nil
	}
	names := map[string]bool{}
	for _, c := range p.cfg.GetStaticResources().GetClusters() {
		names[c.GetName()] = true
	}
	d := &dialer{main: p.stat.Main()}
	found, err := discovery.New(discovery.Config{
		Bootstrap: p.cfg, Stats: p.stat, Logger: p.component("config"), Version: p.o.Version,
		ReadFile: p.o.ReadFile, Getenv: p.o.Getenv,
		Cluster: func(name string) bool { return names[name] },
		Dial: func(ctx context.Context, name, alpn string) (net.Conn, bool, error) {
			c := p.res.cluster(name)
			if c == nil {
				return nil, false, nil
			}
			conn, err := d.dial(ctx, c, alpn)
			return conn, true, err
		},
	})
	if err != nil {
		return err //nolint:wrapcheck // it has the paths
	}
	p.o.Discovery = managed{found}
	return nil
}

// discard ends the bootstrap's Discovery, which was not started.
func (p *Proxy) discard() error {
	if m, ok := p.o.Discovery.(managed); ok {
		return m.Close() //nolint:wrapcheck // it says what is wrong
	}
	return nil
}

// checkSource refuses a config source that cannot be used.
func (p *Proxy) checkSource(path string, c *corev3.ConfigSource, typeURL string) error {
	k, ok := p.o.Discovery.(sourceChecker)
	if !ok {
		return nil
	}
	if err := k.Check(path, c, typeURL); err != nil {
		return fmt.Errorf("%w", err)
	}
	return nil
}
