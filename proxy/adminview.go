package proxy

import (
	"context"
	"errors"
	"runtime/metrics"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
)

// view is the proxy as the admin endpoints see it.
type view struct{ p *Proxy }

// Info implements admin.View.
func (v view) Info() *adminv3.ServerInfo {
	up := durationpb.New(time.Since(v.p.server.began).Truncate(time.Second))
	flags := &adminv3.CommandLineOptions{}
	if v.p.o.CommandLine != nil {
		flags = proto.CloneOf(v.p.o.CommandLine)
	}
	return &adminv3.ServerInfo{
		Version: v.p.o.Version, State: adminv3.ServerInfo_State(v.p.envoyState()), //nolint:gosec // one of four
		UptimeCurrentEpoch: up, UptimeAllEpochs: up, HotRestartVersion: "disabled", CommandLineOptions: flags, Node: v.p.node(),
	}
}

// node is the bootstrap's node and what this program is.
func (p *Proxy) node() *corev3.Node {
	n := &corev3.Node{}
	if p.cfg.GetNode() != nil {
		n = proto.CloneOf(p.cfg.GetNode())
	}
	n.UserAgentName = "xebec"
	if p.o.Version != "" {
		n.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: p.o.Version}
	}
	n.Extensions = p.o.Extensions
	return n
}

// Statistics implements admin.View.
func (v view) Statistics(ctx context.Context) (*stats.Snapshot, error) {
	if v.p.flushOnAdmin {
		if err := v.p.flusher.Flush(ctx); err != nil {
			return nil, err //nolint:wrapcheck // it says what is wrong
		}
	}
	v.p.refresh()                 //nolint:contextcheck // flushes call it too, and it bounds itself
	return v.p.stat.Snapshot(ctx) //nolint:wrapcheck // it says what is wrong
}

// ResetCounters implements admin.View.
func (v view) ResetCounters(ctx context.Context) error {
	return v.p.stat.ResetCounters(ctx) //nolint:wrapcheck // it says what is wrong
}

// Clusters implements admin.View.
func (v view) Clusters(ctx context.Context) ([]cluster.View, error) {
	var out []cluster.View
	for _, c := range v.p.res.activeClusters() {
		w, err := c.View(ctx)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the cluster
		}
		w.AddedViaAPI = c.viaAPI
		out = append(out, w)
	}
	return out, nil
}

// Listeners implements admin.View.
func (v view) Listeners() []*adminv3.ListenerStatus {
	var out []*adminv3.ListenerStatus
	for _, l := range v.p.res.activeListeners() {
		s := &adminv3.ListenerStatus{Name: l.Name}
		for i, socket := range l.Sockets {
			a := addressProto(&socket.Address)
			if i == 0 {
				s.LocalAddress = a
				continue
			}
			s.AdditionalLocalAddresses = append(s.AdditionalLocalAddresses, a)
		}
		out = append(out, s)
	}
	return out
}

func addressProto(a *filter.Address) *corev3.Address {
	if a.Pipe != "" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: a.Pipe}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: a.IP.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.IP.Port())},
	}}}
}

// Certificates implements admin.View (AD-10, TS-26).
func (v view) Certificates() *adminv3.Certificates {
	out := &adminv3.Certificates{}
	now := time.Now()
	for _, c := range v.p.contexts() {
		list := c.Certificates(now)
		out.Certificates = append(out.Certificates, &adminv3.Certificate{CaCert: details(list.CA), CertChain: details(list.Chain)})
	}
	return out
}

// tlsContext is a server's or a client's.
type tlsContext interface {
	Certificates(now time.Time) tlsio.ContextCertificates
	DaysUntilFirstExpiry(now time.Time) (uint64, bool)
}

// contexts are the TLS contexts of all listeners and clusters.
func (p *Proxy) contexts() []tlsContext {
	var out []tlsContext
	for _, l := range p.res.activeListeners() {
		for _, c := range l.Chains {
			out = appendContext(out, c)
		}
		if l.Default != nil {
			out = appendContext(out, l.Default)
		}
	}
	for _, c := range p.res.activeClusters() {
		for _, t := range c.tls {
			if ctx := t.Load(); ctx != nil {
				out = append(out, ctx)
			}
		}
	}
	return out
}

func appendContext(out []tlsContext, c *listener.Chain) []tlsContext {
	if c.TLS != nil {
		if ctx := c.TLS.Context(); ctx != nil {
			return append(out, ctx)
		}
	}
	return out
}

func details(list []tlsio.CertificateStatus) []*adminv3.CertificateDetails {
	var out []*adminv3.CertificateDetails
	for _, c := range list {
		d := &adminv3.CertificateDetails{
			Path: c.Path, SerialNumber: c.Serial, DaysUntilExpiration: c.DaysLeft,
			ValidFrom: timestamppb.New(c.NotBefore), ExpirationTime: timestamppb.New(c.NotAfter),
		}
		for _, s := range c.SANs {
			if n := nameProto(s); n != nil {
				d.SubjectAltNames = append(d.SubjectAltNames, n)
			}
		}
		out = append(out, d)
	}
	return out
}

// nameProto is a name as /certs shows it; nil for a kind that it does not show.
func nameProto(s tlsio.SubjectAltName) *adminv3.SubjectAlternateName {
	switch s.Kind {
	case "DNS":
		return &adminv3.SubjectAlternateName{Name: &adminv3.SubjectAlternateName_Dns{Dns: s.Name}}
	case "URI":
		return &adminv3.SubjectAlternateName{Name: &adminv3.SubjectAlternateName_Uri{Uri: s.Name}}
	case "IP_ADDRESS":
		return &adminv3.SubjectAlternateName{Name: &adminv3.SubjectAlternateName_IpAddress{IpAddress: s.Name}}
	}
	return nil
}

// Memory implements admin.View (AD-16).
func (v view) Memory() *adminv3.Memory {
	s := []metrics.Sample{
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/metadata/mcache/inuse:bytes"},
	}
	metrics.Read(s)
	u := memory()
	return &adminv3.Memory{
		Allocated: uint64(u.allocated), HeapSize: uint64(u.heap), TotalPhysicalBytes: uint64(u.physical), //nolint:gosec // sizes
		PageheapUnmapped: s[0].Value.Uint64(), PageheapFree: s[1].Value.Uint64(), TotalThreadCache: s[2].Value.Uint64(),
	}
}

// Runtime implements admin.View.
func (v view) Runtime() *layeredruntime.Snapshot { return v.p.rt.Load() }

// ModifyRuntime implements admin.View.
func (v view) ModifyRuntime(values map[string]string) error {
	v.p.mu.Lock()
	defer v.p.mu.Unlock()
	next, err := v.p.rt.Load().Override(values)
	if err != nil {
		return err //nolint:wrapcheck // Envoy's text
	}
	v.p.setRuntime(next)
	return nil
}

// setRuntime puts runtime keys in force.
func (p *Proxy) setRuntime(s *layeredruntime.Snapshot) {
	p.rt.Store(s)
	p.server.runtime(p, s)
	p.limitConnections()
	for _, c := range p.res.activeClusters() {
		c.ApplyRuntime(s)
	}
}

// ReopenLogs implements admin.View.
func (v view) ReopenLogs() error {
	v.p.Reopen()
	if v.p.o.ReopenLog == nil {
		return nil
	}
	return errors.Join(v.p.o.ReopenLog())
}

// Quit implements admin.View.
func (v view) Quit() { v.p.Quit() }
