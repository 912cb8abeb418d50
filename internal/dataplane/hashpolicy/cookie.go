package hashpolicy

import (
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/filter"
)

// Cookie is a cookie that is made for clients who do not have it. It is
// immutable.
type Cookie struct{ before, after string }

func newCookie(c *routev3.RouteAction_HashPolicy_Cookie) *Cookie {
	var b strings.Builder
	b.WriteByte('"')
	if s := c.GetTtl().GetSeconds(); s != 0 {
		b.WriteString("; Max-Age=" + strconv.FormatInt(s, 10))
	}
	if c.GetPath() != "" {
		b.WriteString("; Path=" + c.GetPath())
	}
	for _, a := range c.GetAttributes() {
		b.WriteString("; " + a.GetName())
		if a.GetValue() != "" {
			b.WriteString("=" + a.GetValue())
		}
	}
	b.WriteString("; HttpOnly")
	return &Cookie{before: c.GetName() + `="`, after: b.String()}
}

// Set is the value of Set-Cookie that gives the cookie a value.
func (c *Cookie) Set(value string) string { return c.before + value + c.after }

// Value is the value of the cookies of a connection: the same for all requests on
// it, so that those that race get the same host.
func Value(remote, local filter.Address) string {
	text := strconv.FormatUint(xxhash.Sum64(local.AppendTo(remote.AppendTo(nil))), 16)
	return strings.Repeat("0", 16-len(text)) + text
}
