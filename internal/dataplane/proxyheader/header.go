package proxyheader

import (
	"encoding/binary"
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// Upstream is the connection that a header begins.
type Upstream struct {
	ID            uint64
	Local, Remote filter.Address
	// HostName and Metadata are the endpoint's.
	HostName string
	Metadata *corev3.Metadata
	// Start is when it was opened.
	Start time.Time
}

// Append appends the header of a connection that is opened for a source, and those
// of the sockets within. Without a source it tells of nobody: version 2 is LOCAL,
// and version 1 has the addresses of the connection itself, as in Envoy. complete
// is false if TLVs were left out that would have made a header too long.
func (c *Config) Append(out []byte, from *Source, up *Upstream) (_ []byte, complete bool) {
	complete = true
	for ; c != nil; c = c.inner {
		var all bool
		out, all = c.appendOne(out, from, up)
		complete = complete && all
	}
	return out, complete
}

func (c *Config) appendOne(out []byte, from *Source, up *Upstream) (_ []byte, complete bool) {
	switch {
	case c.version == 1 && from == nil:
		return inspect.AppendProxyHeader(out, 1, up.Local, up.Remote), true
	case from == nil:
		return inspect.AppendProxyHeader(out, 2, filter.Address{}, filter.Address{}), true
	}
	begin := len(out)
	out = inspect.AppendProxyHeader(out, c.version, from.From, from.To)
	if c.version == 1 || isLocal(out[begin:]) {
		return out, true // nobody reads the TLVs of a LOCAL header
	}
	out, complete = c.appendTLVs(out, begin+inspect.HeaderLengthV2, from, up)
	size := len(out) - begin - inspect.HeaderLengthV2
	binary.BigEndian.PutUint16(out[begin+inspect.HeaderLengthV2-2:], uint16(size)) //nolint:gosec // appendTLVs sees to it
	return out, complete
}

// isLocal tells whether a header of version 2 tells of no addresses.
func isLocal(header []byte) bool { return header[inspect.HeaderLengthV2-4]&0xf == 0 }

// appendTLVs appends the TLVs to a header whose length counts from body: those that
// are added here, then those that were received of other types. What would make it
// longer than its length can say is left out, and what comes after is tried.
func (c *Config) appendTLVs(out []byte, body int, from *Source, up *Upstream) (_ []byte, complete bool) {
	var taken [256]bool
	complete = true
	add := func(t inspect.TLV) {
		if len(out)-body+3+len(t.Value) > math.MaxUint16 {
			complete = false
			return
		}
		out = appendTLV(out, t)
	}
	for _, t := range c.own(up) {
		taken[t.Type] = true
		add(t)
	}
	for _, t := range from.TLVs {
		if c.passes(t.Type) && !taken[t.Type] {
			add(t)
		}
	}
	return out, complete
}

// own are the TLVs that are added here, in Envoy's order: the endpoint's, then
// those of the socket whose types the endpoint has not, but for made ones that are
// empty.
func (c *Config) own(up *Upstream) []inspect.TLV {
	list, _ := hostTLVs(up.Metadata) // endpoints with an error are refused
	var host [256]bool
	for _, t := range list {
		host[t.Type] = true
	}
	for _, t := range c.added.fixed {
		if !host[t.Type] {
			list = append(list, t)
		}
	}
	if len(c.added.made) == 0 {
		return list
	}
	ctx := up.context()
	for _, t := range c.added.made {
		if host[t.kind] {
			continue
		}
		if v := t.text.AppendLog(nil, ctx); len(v) > 0 {
			list = append(list, inspect.TLV{Type: t.kind, Value: v})
		}
	}
	return list
}

// context is what operators of a format_string read. As in Envoy it is the
// connection to the host: its addresses are those that are called downstream, and
// nothing is known of the client's.
func (u *Upstream) context() *format.Context {
	return &format.Context{Now: u.Start, Info: &filter.StreamInfo{
		StartTime:   u.Start,
		Connection:  &filter.ConnectionInfo{ID: u.ID, Local: u.Local, Remote: u.Remote},
		HasUpstream: true,
		Upstream:    filter.UpstreamInfo{Host: u.Remote, HostName: u.HostName, Metadata: u.Metadata},
	}}
}
