package proxy

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/admin"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

// access writes the access-log lines of a request to the admin endpoints.
func (a *adminServer) access(x *admin.Exchange) {
	if len(a.logs) == 0 {
		return
	}
	c := a.context(x)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logs.Log(a.lines, c)
}

// context is what log formats see of a request.
func (a *adminServer) context(x *admin.Exchange) *format.Context {
	r := x.Request
	remote := netAddress(r.RemoteAddr)
	req, resp := &header.Map{}, &header.Map{}
	req.Add(":authority", r.Host)
	req.Add(":path", r.RequestURI)
	req.Add(":method", r.Method)
	req.Add(":scheme", "http")
	addHeaders(req, r.Header)
	if remote.IP.IsValid() {
		req.AppendValue("x-forwarded-for", ",", remote.IP.Addr().String())
	}
	resp.Add(":status", strconv.Itoa(x.Status))
	addHeaders(resp, x.Header)
	start := x.Start.Sub(a.p.epoch)
	info := &filter.StreamInfo{
		StartTime: x.Start, Protocol: filter.HTTP11, ResponseCode: x.Status, Details: "admin_filter_response",
		BytesReceived: uint64(max(r.ContentLength, 0)), BytesSent: x.Sent, Remote: remote,
		Connection: &filter.ConnectionInfo{Remote: remote, Start: start},
	}
	if x.Local != nil {
		local := netAddress(x.Local.String())
		info.Connection.Local = local
	}
	if r.ProtoMinor == 0 {
		info.Protocol = filter.HTTP10
	}
	info.Timing.Reset(start)
	end := start + x.Duration
	info.Timing.LastRx, info.Timing.FirstTx, info.Timing.LastTx, info.Timing.End = start, end, end, end
	return &format.Context{Req: req, Resp: resp, Info: info, LogType: "DownstreamEnd", Now: x.Start.Add(x.Duration)}
}

func addHeaders(m *header.Map, from map[string][]string) {
	for name, values := range from {
		for _, v := range values {
			m.Add(strings.ToLower(name), v)
		}
	}
}

// netAddress is the address of the net package's text; a path if it is none of
// IP and port.
func netAddress(text string) filter.Address {
	if a, err := netip.ParseAddrPort(text); err == nil {
		return filter.IPAddress(a)
	}
	if host, _, err := net.SplitHostPort(text); err == nil && host != "" {
		return filter.Address{}
	}
	return filter.PipeAddress(text)
}
