package tcpproxy

import (
	"errors"
	"fmt"
	"slices"

	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
	"github.com/xebec-proxy/xebec/internal/dataplane/proxyheader"
)

// addedTLVs are what the filter adds to the TLVs that upstream PROXY headers may pass
// on (proxy_protocol_tlvs, proxy_protocol_tlv_merge_policy; TS-24).
type addedTLVs struct {
	list  proxyheader.TLVs
	merge tcpv3.ProxyProtocolTlvMergePolicy
}

func (a *addedTLVs) read(c *tcpv3.TcpProxy, o format.Options) (err error) {
	a.list, err = proxyheader.ReadTLVs("proxy_protocol_tlvs", c.GetProxyProtocolTlvs(), o)
	a.merge = c.GetProxyProtocolTlvMergePolicy()
	if _, ok := tcpv3.ProxyProtocolTlvMergePolicy_name[int32(a.merge)]; !ok {
		err = errors.Join(err, fmt.Errorf("proxy_protocol_tlv_merge_policy: %d is no policy", a.merge))
	}
	return err
}

// addTLVs adds the filter's TLVs to those that the connection came with.
func (s *session) addTLVs() {
	added := &s.cfg.tlvs
	if added.list.Len() == 0 {
		return
	}
	var with inspect.ProxyHeader
	came, had := s.info.State[inspect.HeaderState].(*inspect.ProxyHeader)
	if had {
		if added.merge == tcpv3.ProxyProtocolTlvMergePolicy_ADD_IF_ABSENT {
			return
		}
		with = *came
	}
	ctx := &format.Context{Info: s.info, Now: s.w.Loop.Wall()}
	if added.merge == tcpv3.ProxyProtocolTlvMergePolicy_APPEND_IF_EXISTS_OR_ADD {
		with.PassThrough = added.list.Append(slices.Clone(with.PassThrough), ctx)
	} else {
		with.PassThrough = overwrite(added.list.Append(nil, ctx), with.PassThrough)
	}
	s.info.SetState(inspect.HeaderState, &with)
}

// overwrite appends those of another list whose types the first has not.
func overwrite(list, other []inspect.TLV) []inspect.TLV {
	var has [256]bool
	for _, t := range list {
		has[t.Type] = true
	}
	for _, t := range other {
		if !has[t.Type] {
			list = append(list, t)
		}
	}
	return list
}
