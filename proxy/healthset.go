package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/healthcheck"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
)

// healthChecks builds the active health checks of a cluster; nothing runs yet.
func (p *Proxy) healthChecks(e *clusterEntry) error {
	list, err := healthcheck.Read(e.Config(), e.HTTP.Mode != cluster.ExplicitHTTP1)
	if err != nil || len(list) == 0 {
		return err //nolint:wrapcheck // it has the paths
	}
	files := make(map[string]*accesslog.File)
	for i, c := range list {
		for _, path := range c.EventLogs {
			if files[path], err = p.files.Open(path); err != nil {
				return fmt.Errorf("health_checks[%d]: event log: %w", i, err)
			}
		}
	}
	e.checker = healthcheck.New(healthcheck.Options{
		Cluster: e.Cluster, Checks: list, Registry: e.lease.Scope, Sink: p.stat.Main(), Dial: e.dialCheck,
		Runtime: func() cluster.Runtime { return p.rt.Load() }, HTTP1: e.opt.HTTP1, HTTP2: e.opt.HTTP2, Logger: p.component("hc"),
		Events: func(path string, line []byte) { _, _ = files[path].Write(line) },
	})
	return nil
}

// startChecks begins to check a cluster's hosts, once the secrets of its TLS have
// come. r.mu is held.
func (r *Resources) startChecks(e *clusterEntry) {
	if e.checker == nil || e.checks != nil || r.ctx == nil || !e.hasSecrets() {
		return
	}
	var ctx context.Context
	ctx, e.checks = context.WithCancel(r.ctx)
	r.tasks.Go(func() { e.checker.Run(ctx) })
	r.settleWhenReady(ctx.Done(), e)
}

// dialCheck opens a connection for a check of a host. It is none of the cluster's
// pools, and no circuit breaker counts it (HK-13).
func (e *clusterEntry) dialCheck(ctx context.Context, h *cluster.Host, check *healthcheck.Config, alpn string) (net.Conn, bool, error) {
	switch {
	case check.SpeaksHTTP2():
		e.Stats.HTTP2()
	case check.SpeaksHTTP1():
		e.Stats.HTTP1()
	}
	a := h.HealthCheckAddress()
	raw, err := e.connect(ctx, &a)
	if err != nil {
		return nil, false, err
	}
	i := e.checkSocket(h, check)
	if err := e.announce(ctx, h, raw, i); err != nil {
		return nil, false, errors.Join(err, raw.Close())
	}
	t := e.socketTLS(i)
	if t == nil {
		return raw, false, nil
	}
	c := t.Load()
	if c == nil {
		return nil, true, errors.Join(tlsio.ErrSecretMissing, raw.Close())
	}
	so := tlsio.ClientSessionOptions{Host: h.Hostname(), ALPN: check.ALPN}
	if alpn != "" {
		so.ALPNFallback = []string{alpn}
	}
	conn := tls.Client(raw, c.Config(so))
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, true, errors.Join(err, raw.Close())
	}
	return conn, true, nil
}

// checkSocket is the number of the match that selects the transport socket of a
// check's connection to a host, -1 for the cluster's own.
func (e *clusterEntry) checkSocket(h *cluster.Host, check *healthcheck.Config) int {
	if check.Criteria != nil {
		return e.MatchTransportSocket(check.Criteria)
	}
	return h.Attributes().TransportSocket
}
