package tcpproxy

import (
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/hashpolicy"
	"github.com/xebec-proxy/xebec/internal/dataplane/lb"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
)

// hashBy is what balancers that hash take of a connection: the hash_policy, of
// which there is one at most.
type hashBy struct {
	sourceIP bool
	state    string // key of the filter state, or ""
}

func readHashPolicy(list []*typev3.HashPolicy) (by hashBy) {
	for _, p := range list {
		by.sourceIP, by.state = p.GetSourceIp() != nil, p.GetFilterState().GetKey()
	}
	return by
}

// pick chooses the host of an attempt. What it depends on is computed if the
// cluster asks for it.
func (s *session) pick() *cluster.Host {
	if !s.cl.Cfg.LB.Asks() {
		return s.cl.Pick(nil)
	}
	ctx := lb.Context{Hasher: s, Criteria: s.criteria}
	if own, ok := s.info.Metadata[subset.Namespace]; ok {
		ctx.Criteria = ctx.Criteria.With(own)
	}
	return s.cl.Pick(&ctx)
}

// Hash implements lb.Hasher.
func (s *session) Hash(own *hashpolicy.Policy) (hash uint64, ok bool) {
	switch by := &s.cfg.hash; {
	case own != nil:
		return own.Hash(&hashpolicy.Request{Remote: s.remote(), State: s.info.State})
	case by.sourceIP:
		return hashpolicy.SourceIP(s.remote())
	case by.state != "":
		return hashpolicy.State(s.info.State, by.state)
	}
	return 0, false
}

// remote is the address of the client.
func (s *session) remote() filter.Address { return s.c.Info.Remote }
