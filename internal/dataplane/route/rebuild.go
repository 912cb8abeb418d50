package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/internal/listdiff"
)

// source is what a table was made of: what the next one needs to take from it what
// has stayed.
type source struct {
	base *routev3.RouteConfiguration // without its virtual hosts
	of   []*routev3.VirtualHost
	// built is what became of them, at the same places.
	built []*virtualHost
}

// Rebuild is New that takes virtual hosts from the table before, which was made with
// the same env but for ClusterExists, if nothing but virtual hosts has changed: those
// that are the same message, which nobody may have changed. What it costs beside a
// list of them all is what has changed. What a virtual host depends on beside its
// message is looked at again: files that it names are read, and clusters must exist
// if ClusterExists is asked, but for virtual hosts beside discovered ones (vhds).
// Without a table before it is New.
func Rebuild(before *Table, cfg *routev3.RouteConfiguration, env *Env) (*Table, error) {
	if env == nil {
		env = &Env{}
	}
	if v := cfg.GetValidateClusters(); v != nil && !v.GetValue() {
		noCheck := *env
		noCheck.ClusterExists = nil
		env = &noCheck
	}
	if before != nil {
		if t := before.changed(cfg, env); t != nil {
			return t, nil
		}
	}
	return makeTable(cfg, env)
}

// changed is the table with other virtual hosts; nil if more has changed, or
// something is wrong: building everything finds all that is, in its order.
func (t *Table) changed(cfg *routev3.RouteConfiguration, env *Env) *Table {
	base := WithoutHosts(cfg)
	if t.reads || !proto.Equal(t.base, base) {
		return nil
	}
	hosts := cfg.GetVirtualHosts()
	from := listdiff.Kept(t.of, hosts, sameHost, itself, itself)
	built, kept := make([]*virtualHost, len(hosts)), make([]bool, len(t.of))
	check := env
	if cfg.GetVhds() != nil {
		check = &Env{}
	}
	for i, was := range from {
		if was < 0 || t.built[was].reads {
			continue
		}
		built[i], kept[was] = t.built[was], true
		if !built[i].clustersExist(check) {
			return nil
		}
	}
	b := &builder{env: env, t: &Table{level: t.level, hosts: t.hosts.copy(), source: source{base, hosts, built}}}
	for i, vh := range t.built {
		if !kept[i] {
			b.t.hosts.remove(t.of[i].GetDomains(), vh)
		}
	}
	for i, c := range hosts {
		if built[i] == nil {
			built[i] = b.virtualHost(i, c)
		}
	}
	if len(b.errs) > 0 {
		return nil
	}
	b.warnings.tell(env)
	b.t.hosts.finish()
	return b.t
}

func sameHost(a, b *routev3.VirtualHost) bool             { return a == b }
func itself(vh *routev3.VirtualHost) *routev3.VirtualHost { return vh }

// clustersExist looks again for the clusters that were looked for.
func (vh *virtualHost) clustersExist(env *Env) bool {
	if env.ClusterExists == nil {
		return true
	}
	for _, name := range vh.asked {
		if !env.ClusterExists(name) {
			return false
		}
	}
	return true
}

// WithoutHosts is a route configuration without its virtual hosts. It shares the
// rest.
func WithoutHosts(cfg *routev3.RouteConfiguration) *routev3.RouteConfiguration {
	base := &routev3.RouteConfiguration{}
	from, to := cfg.ProtoReflect(), base.ProtoReflect()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Name() != "virtual_hosts" {
			to.Set(f, v)
		}
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return base
}
