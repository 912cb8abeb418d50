package proxy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
)

// Unready implements admin.View (AD-09): the listeners that wait, and for what,
// by Envoy's names. Its number after a listener's name tells versions of the
// listener apart; so does ours.
func (v view) Unready() []*adminv3.UnreadyTargetsDumps_UnreadyTargetsDump {
	r := v.p.res
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*adminv3.UnreadyTargetsDumps_UnreadyTargetsDump
	for _, s := range r.listenerSlots() {
		for _, l := range []*listenerEntry{s.active, s.warming} {
			if l == nil || l.deps.ready() {
				continue
			}
			out = append(out, &adminv3.UnreadyTargetsDumps_UnreadyTargetsDump{
				Name:        fmt.Sprintf("init manager Listener-local-init-manager %s %d", l.Name, xxhash.Sum64(append([]byte(l.Name), l.hash[:]...))),
				TargetNames: r.awaited(l.deps),
			})
		}
	}
	return out
}

// awaited are the names of what has not come, each once. r.mu is held.
func (r *Resources) awaited(d deps) []string {
	names := map[string]struct{}{}
	for _, c := range d {
		for _, u := range c.routes {
			if !u.over {
				names["shared target RdsRouteConfigSubscription RDS init "+u.name] = struct{}{}
			}
		}
		for _, u := range c.scopes {
			if !u.warm() {
				names["target ConfigSubscriptionCommonBase init target 'SRDS'"] = struct{}{}
			}
		}
		for _, u := range c.secrets {
			if u.over {
				continue
			}
			for _, need := range u.needs {
				if s := r.secretOf(need); s == nil || s.last == nil {
					names["shared target SdsApi "+need.GetName()] = struct{}{}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
