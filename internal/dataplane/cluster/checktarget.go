package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/filter"
)

// checkTarget is an endpoint's health_check_config (HK-09). It is immutable; nil
// is the default.
type checkTarget struct {
	addr     filter.Address // not valid: the host's
	port     uint16         // 0: that of the address
	hostname string
	skip     bool // disable_active_health_check
}

// newCheckTarget reads a health_check_config; nil if nothing is set. ip tells that
// the host's own address has a port.
func newCheckTarget(c *endpointv3.Endpoint_HealthCheckConfig, ip bool) (*checkTarget, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // the default
	}
	t := &checkTarget{hostname: c.GetHostname(), skip: c.GetDisableActiveHealthCheck()}
	if c.GetPortValue() > 65535 {
		return nil, fmt.Errorf("port_value: %d is over 65535", c.GetPortValue())
	}
	t.port = uint16(c.GetPortValue())
	if a := c.GetAddress(); a != nil {
		var err error
		if t.addr, err = staticTarget(a); err != nil {
			return nil, fmt.Errorf("address: %w", err)
		}
		ip = t.addr.Pipe == ""
	}
	if t.port != 0 && !ip {
		return nil, errors.New("port_value: Invalid host configuration: non-zero port for non-IP address") // Envoy's text
	}
	if *t == (checkTarget{}) {
		return nil, nil //nolint:nilnil // the default
	}
	return t, nil
}

func (t *checkTarget) skipped() bool { return t != nil && t.skip }

// appendTo writes what makes another host of it when it changes.
func (t *checkTarget) appendTo(b *strings.Builder) {
	if t == nil {
		return
	}
	b.WriteString(t.addr.String() + " " + strconv.Itoa(int(t.port)) + " " + t.hostname + " " + strconv.FormatBool(t.skip) + "\n")
}

// HealthCheckAddress is where the host is checked (HK-09).
func (h *Host) HealthCheckAddress() filter.Address {
	a := h.Address()
	if h.check == nil {
		return a
	}
	if h.check.addr.IsValid() {
		a = h.check.addr
	}
	if h.check.port != 0 {
		a = filter.IPAddress(netip.AddrPortFrom(a.IP.Addr(), h.check.port))
	}
	return a
}

// HealthCheckHostname is the host's name in its checks, "" if it has none of its
// own.
func (h *Host) HealthCheckHostname() string {
	if h.check == nil {
		return ""
	}
	return h.check.hostname
}

// Unchecked reports whether the host is not to be checked
// (disable_active_health_check): it is healthy.
func (h *Host) Unchecked() bool { return h.check.skipped() }
