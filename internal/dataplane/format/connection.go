package format

import (
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
)

// ofConnection is a string of the downstream connection.
func ofConnection(get func(*filter.ConnectionInfo) string) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		cx := c.connection()
		if cx == nil {
			return dst, false
		}
		s := get(cx)
		return append(dst, s...), s != ""
	}}
}

// ofUpstream is a string of the last attempt.
func ofUpstream(get func(*filter.UpstreamInfo) string) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		up := c.upstream()
		if up == nil {
			return dst, false
		}
		s := get(up)
		return append(dst, s...), s != ""
	}}
}

// downstreamOp makes the operators of the downstream connection (AL-11).
func downstreamOp(name string) *op {
	switch name {
	case "CONNECTION_ID":
		return counted(func(c *Context) int64 {
			if cx := c.connection(); cx != nil {
				return int64(cx.ID)
			}
			return 0
		})
	case "FILTER_CHAIN_NAME":
		return ofConnection(func(i *filter.ConnectionInfo) string { return i.FilterChain })
	case "CONNECTION_TERMINATION_DETAILS":
		return ofConnection(func(i *filter.ConnectionInfo) string { return i.End().TerminationDetails })
	case "DOWNSTREAM_TRANSPORT_FAILURE_REASON":
		return unspaced(ofConnection(func(i *filter.ConnectionInfo) string { return i.End().TransportFailure }))
	case "DOWNSTREAM_LOCAL_CLOSE_REASON":
		return ofConnection(func(i *filter.ConnectionInfo) string { return i.End().LocalCloseReason })
	case "DOWNSTREAM_DETECTED_CLOSE_TYPE":
		return ofConnection(func(i *filter.ConnectionInfo) string { return i.End().Detected.String() })
	}
	return endOp(name)
}

// unspaced has "_" for white space.
func unspaced(o *op) *op {
	get := o.text
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		n := len(dst)
		dst, ok := get(dst, c)
		for i, b := range dst[n:] {
			if b == ' ' || b >= '\t' && b <= '\r' {
				dst[n+i] = '_'
			}
		}
		return dst, ok
	}}
}

// upstreamOp makes the operators of the last attempt (AL-10).
func upstreamOp(name string) *op {
	switch name {
	case "UPSTREAM_PROTOCOL":
		return ofUpstream(func(u *filter.UpstreamInfo) string { return u.Protocol.String() })
	case "UPSTREAM_HOST":
		return addressText(func(c *Context) *filter.Address {
			if c.Info == nil || !c.Info.HasUpstream {
				return nil
			}
			return &c.Info.Upstream.Host
		}, func(dst []byte, a *filter.Address) []byte { return a.AppendTo(dst) })
	case "UPSTREAM_HOST_NAME":
		return hostName(false)
	case "UPSTREAM_HOST_NAME_WITHOUT_PORT":
		return hostName(true)
	case "UPSTREAM_CLUSTER":
		return ofStream(func(i *filter.StreamInfo) string {
			if i.ClusterStatName != "" {
				return i.ClusterStatName
			}
			return i.Cluster
		})
	case "UPSTREAM_CLUSTER_RAW":
		return ofStream(func(i *filter.StreamInfo) string { return i.Cluster })
	case "UPSTREAM_TRANSPORT_FAILURE_REASON":
		return unspaced(ofUpstream(func(u *filter.UpstreamInfo) string { return u.TransportFailure }))
	case "UPSTREAM_LOCAL_CLOSE_REASON":
		return ofUpstream(func(u *filter.UpstreamInfo) string { return u.LocalCloseReason })
	case "UPSTREAM_DETECTED_CLOSE_TYPE":
		return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
			if !c.asked() {
				return dst, false
			}
			return append(dst, c.Info.Upstream.DetectedClose.String()...), true
		}}
	}
	return nil
}

// hostName makes the operator of the host's name, or its address without one.
func hostName(bare bool) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		u := c.upstream()
		if u == nil {
			return dst, false
		}
		n := len(dst)
		dst = appendName(dst, u.HostName, &u.Host, bare)
		return dst, len(dst) > n
	}}
}

// appendName appends a name, or an address if there is none.
func appendName(dst []byte, name string, a *filter.Address, bare bool) []byte {
	switch {
	case name == "" && bare:
		return appendHost(dst, a)
	case name == "":
		return a.AppendTo(dst)
	case bare:
		return append(dst, withoutPort(name)...)
	}
	return append(dst, name...)
}

// withoutPort cuts the port off a name or an address.
func withoutPort(s string) string {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasPrefix(s, "/") {
		return s
	}
	if strings.HasPrefix(s, "[") {
		return strings.TrimSuffix(strings.TrimPrefix(s[:i], "["), "]")
	}
	if strings.IndexByte(s[:i], ':') >= 0 {
		return s // a bare IPv6 address
	}
	return s[:i]
}

// attemptOp makes the operators that list all attempts.
func attemptOp(name string) *op {
	switch name {
	case "UPSTREAM_HOSTS_ATTEMPTED":
		return attempts(hostsAttempted, func(dst []byte, u *filter.UpstreamInfo, i int) []byte {
			return u.Attempted[i].AppendTo(dst)
		})
	case "UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT":
		return attempts(hostsAttempted, func(dst []byte, u *filter.UpstreamInfo, i int) []byte {
			return appendHost(dst, &u.Attempted[i])
		})
	case "UPSTREAM_HOST_NAMES_ATTEMPTED":
		return attempts(hostsAttempted, func(dst []byte, u *filter.UpstreamInfo, i int) []byte {
			return appendName(dst, attemptedName(u, i), &u.Attempted[i], false)
		})
	case "UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT":
		return attempts(hostsAttempted, func(dst []byte, u *filter.UpstreamInfo, i int) []byte {
			return appendName(dst, attemptedName(u, i), &u.Attempted[i], true)
		})
	case "UPSTREAM_CONNECTION_IDS_ATTEMPTED":
		return attempts(func(u *filter.UpstreamInfo) int { return len(u.AttemptedIDs) },
			func(dst []byte, u *filter.UpstreamInfo, i int) []byte {
				return strconv.AppendUint(dst, u.AttemptedIDs[i], 10)
			})
	}
	return nil
}

func hostsAttempted(u *filter.UpstreamInfo) int { return len(u.Attempted) }

func attemptedName(u *filter.UpstreamInfo, i int) string {
	if i < len(u.AttemptedNames) {
		return u.AttemptedNames[i]
	}
	return ""
}

func attempts(count func(*filter.UpstreamInfo) int, write func([]byte, *filter.UpstreamInfo, int) []byte) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		if !c.asked() {
			return dst, false
		}
		up := &c.Info.Upstream
		n := count(up)
		for i := range n {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = write(dst, up, i)
		}
		return dst, n > 0
	}}
}
