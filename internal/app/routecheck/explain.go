package routecheck

import (
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

// Request is a request to be explained.
type Request struct {
	// Host, Path and Method are the request's; Method "" is GET.
	Host, Path, Method string
	// Headers are "name: value".
	Headers []string
	// TLS, Internal and Random are how it came, and its random number.
	TLS, Internal bool
	Random        uint64
}

func loopback() filter.Address {
	return filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0))
}

// Explain writes which route a request takes, why each one before it does not
// match, and what becomes of the request. It tells whether there is a route.
func Explain(w io.Writer, t *Table, r Request) (found bool, err error) {
	in := input{Authority: r.Host, Path: r.Path, Method: r.Method, SSL: r.TLS, Internal: r.Internal, Random: r.Random}
	for _, h := range r.Headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || name == "" {
			return false, fmt.Errorf("the header %q is no \"name: value\"", h)
		}
		in.Headers = append(in.Headers, keyValue{name, strings.TrimSpace(value)})
	}
	c, err := in.context()
	if err != nil {
		return false, err
	}
	x := t.Table.Explain(c)
	if x.VirtualHost == "" {
		fmt.Fprintf(w, "No virtual host has a domain for %s: 404.\n", r.Host)
		return false, nil
	}
	fmt.Fprintf(w, "virtual host %s\n", x.VirtualHost)
	for _, tried := range x.Tried {
		writeTried(w, &tried)
	}
	if x.Untried > 0 {
		fmt.Fprintf(w, "  %d more after it\n", x.Untried)
	}
	a := ask(t.Table, c)
	a.write(w, c, x.RequireTLS)
	return a.entry != nil, nil
}

func writeTried(w io.Writer, r *route.Tried) {
	name := ""
	if r.Name != "" {
		name = " " + r.Name
	}
	verdict := "MATCHES"
	if r.Why != "" {
		verdict = "no: " + r.Why
	}
	fmt.Fprintf(w, "  routes[%d]%s, %s: %s\n", r.Index, name, r.Path, verdict)
}

func (a *answer) write(w io.Writer, c *route.Context, tls bool) {
	switch {
	case a.entry == nil:
		fmt.Fprintln(w, "no route: 404")
	case tls:
		fmt.Fprintf(w, "require_tls: %d to %s\n", a.status, a.location)
	case a.entry.Kind() == route.Redirect:
		fmt.Fprintf(w, "redirect: %d to %s\n", a.status, a.location)
	case a.entry.Kind() == route.DirectResponse:
		fmt.Fprintf(w, "direct response: %d\n", a.status)
	default:
		fmt.Fprintf(w, "to cluster %q\n  timeout %v\n", a.cluster, a.timeout)
		for name, value := range c.Request.All() {
			fmt.Fprintf(w, "  > %s: %s\n", name, value)
		}
	}
	if a.entry != nil {
		for name, value := range c.Response.All() {
			fmt.Fprintf(w, "  < %s: %s\n", name, value)
		}
	}
}
