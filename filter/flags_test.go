package filter_test

import (
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
)

// shortFlags are Envoy's response flags, in its order.
const shortFlags = "LH UH UT LR UR UF UC UO NR DI FI RL UAEX RLSE DC URX SI IH DPE UMSDR RFCF NFCF DT UPE NC OM DF DO DR UDO"

// Proves AL-13: names, long and short, and the order in which they are joined.
func TestFlags(t *testing.T) {
	var all filter.Flags
	names := strings.Fields(shortFlags)
	for i, n := range names {
		f := filter.FlagByName(n)
		if f != 1<<i {
			t.Errorf("%s is %#x, want bit %d", n, f, i)
		}
		if got := string(f.AppendShort([]byte("x"))); got != "x"+n {
			t.Errorf("bit %d is %s, want %s", i, got, n)
		}
		if !f.Has(f) || f.Has(f<<1) || all.Has(f) {
			t.Errorf("%s: Has is wrong", n)
		}
		all |= f
	}
	if got := string(all.AppendShort(nil)); got != strings.Join(names, ",") {
		t.Errorf("all: %s", got)
	}
	if got := strings.Count(string(all.AppendLong(nil)), ","); got != len(names)-1 {
		t.Errorf("all: %d long names", got+1)
	}
	long := filter.FlagUpstreamRetryLimitExceeded | filter.FlagUpstreamConnectionFailure | filter.FlagDnsResolutionFailed
	if got := string(long.AppendLong(nil)); got != "UpstreamConnectionFailure,UpstreamRetryLimitExceeded,DnsResolutionFailed" {
		t.Errorf("long: %s", got)
	}
	if got := string(filter.Flags(0).AppendShort(nil)) + string(filter.Flags(0).AppendLong(nil)); got != "--" {
		t.Errorf("none: %s", got)
	}
	if f := filter.FlagByName("XX"); f != 0 {
		t.Errorf("XX is %#x", f)
	}
}
