package inspect

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
)

// Partly proves HC-45: the PROXY header before what goes through a tunnel.
func TestAppendProxyHeader(t *testing.T) {
	ip := func(s string) filter.Address { return filter.IPAddress(netip.MustParseAddrPort(s)) }
	const sig = "0d0a0d0a000d0a515549540a"
	for _, c := range []struct {
		from, to filter.Address
		v1, v2   string
	}{
		{ip("10.0.0.1:1000"), ip("10.0.0.2:80"), "PROXY TCP4 10.0.0.1 10.0.0.2 1000 80\r\n", sig + "2111000c0a0000010a00000203e80050"},
		{ip("[2001:db8::1]:65535"), ip("[::1]:1"), "PROXY TCP6 2001:db8::1 ::1 65535 1\r\n", sig + "21210024" + "20010db8000000000000000000000001" + "00000000000000000000000000000001" + "ffff0001"},
		{ip("[fe80::1%eth0]:2"), ip("[::1]:1"), "PROXY TCP6 fe80::1 ::1 2 1\r\n", sig + "21210024" + "fe800000000000000000000000000001" + "00000000000000000000000000000001" + "00020001"},
		{ip("10.0.0.1:1000"), ip("[::1]:1"), "PROXY UNKNOWN\r\n", sig + "20000000"},
		{filter.PipeAddress("/a"), filter.PipeAddress("/b"), "PROXY UNKNOWN\r\n", sig + "20000000"},
	} {
		if got := string(AppendProxyHeader([]byte("x"), 1, c.from, c.to)); got != "x"+c.v1 {
			t.Errorf("version 1: %q, want %q", got, c.v1)
		}
		if got := hex.EncodeToString(AppendProxyHeader(nil, 2, c.from, c.to)); got != c.v2 {
			t.Errorf("version 2: %s, want %s", got, c.v2)
		}
	}
}
