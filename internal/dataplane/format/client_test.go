package format_test

import (
	"net/netip"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

// The remote address of a stream is its trusted client's, without a port that
// would be known; the direct one stays the peer's.
func TestTrustedClientIsTheRemoteAddress(t *testing.T) {
	f, err := format.Parse("%DOWNSTREAM_REMOTE_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %DOWNSTREAM_REMOTE_PORT% %DOWNSTREAM_DIRECT_REMOTE_ADDRESS%")
	if err != nil {
		t.Fatal(err)
	}
	peer := filter.IPAddress(netip.MustParseAddrPort("10.0.0.5:4000"))
	info := filter.StreamInfo{Connection: &filter.ConnectionInfo{Remote: peer}}
	shown := func() string {
		out, _ := f.Append(nil, nil, nil, &info)
		return string(out)
	}
	if got, want := shown(), "10.0.0.5:4000 10.0.0.5 4000 10.0.0.5:4000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	info.Remote = filter.IPAddress(netip.MustParseAddrPort("203.0.113.10:0"))
	if got, want := shown(), "203.0.113.10:0 203.0.113.10 0 10.0.0.5:4000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
