package inspect

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxy_protocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func proxyProtocol(t testing.TB, c *proxy_protocolv3.ProxyProtocol) *ProxyProtocol {
	t.Helper()
	p, err := NewProxyProtocol(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func v2Header(versionCommand, family byte, body ...[]byte) []byte {
	return cat([]byte(signatureV2), []byte{versionCommand, family}, vec16(cat(body...)))
}

func addresses(source, destination string, sourcePort, destinationPort int) []byte {
	return cat(netip.MustParseAddr(source).AsSlice(), netip.MustParseAddr(destination).AsSlice(), u16(sourcePort), u16(destinationPort))
}

func tlv(kind byte, value string) []byte { return cat([]byte{kind}, vec16([]byte(value))) }

func unixName(path string) []byte { return append([]byte(path), make([]byte, 108-len(path))...) }

type proxyCase struct {
	name  string
	in    []byte
	stats string
	addrs string // "source destination" when proxied
}

// What Envoy 1.40 counted for each header, Unix sockets, zones and signs of
// ports excepted.
func proxyCases() []proxyCase {
	const v1Found, v1Error, v2Found, v2Error = "versions.v1.found", "versions.v1.error", "versions.v2.found", "versions.v2.error"
	const none = "not_found_disallowed"
	four, six := addresses("1.2.3.4", "5.6.7.8", 1000, 2000), addresses("2001:db8::1", "2001:db8::2", 1000, 2000)
	const fourText, sixText = "1.2.3.4:1000 5.6.7.8:2000", "[2001:db8::1]:1000 [2001:db8::2]:2000"
	var out []proxyCase
	for stats, lines := range map[string][]string{
		v1Error: {
			"PROXY UNKNOWNX", "PROXY TCP4 1.2.3.4 5.6.7.8 1000", "PROXY TCP4 1.2.3.4 5.6.7.8 1000 2000 x", "PROXY  TCP4 1.2.3.4 5.6.7.8 1000 2000",
			"PROXY TCP4 2001:db8::1 5.6.7.8 1000 2000", "PROXY TCP6 1.2.3.4 5.6.7.8 1000 2000", "PROXY TCP4 1.2.3.4 5.6.7.8 65536 2000", "PROXY TCP4 1.2.3.4 5.6.7.8 -1 2000",
			"PROXY TCP4 1.2.3.4 5.6.7.8 +1 2000", "PROXY TCP4 01.2.3.4 5.6.7.8 1000 2000", "PROXY TCP4 1.2.3 5.6.7.8 1000 2000", "PROXY TCP4 1.2.3.4\t5.6.7.8 1000 2000",
			"PROXY TCP6 fe80::1%lo 2001:db8::2 1000 2000", "PROXY TCP6 [::1] 2001:db8::2 1000 2000", "PROXY TCP4 0.0.0.0 5.6.7.8 1000 2000",
			"PROXY TCP4 255.255.255.255 5.6.7.8 1000 2000", "PROXY TCP4 224.0.0.1 5.6.7.8 1000 2000", "PROXY TCP4 239.255.255.255 5.6.7.8 1 2", "PROXY TCP4 1.2.3.4 0.0.0.0 1000 2000",
			"PROXY TCP6 ff02::1 2001:db8::2 1000 2000", "PROXY TCP6 :: 2001:db8::2 1000 2000", "PROXY TCP6 2001:db8::1 :: 1000 2000", "PROXY UDP4 1.2.3.4 5.6.7.8 1000 2000",
			"PROXY tcp4 1.2.3.4 5.6.7.8 1000 2000", "PROXY ", "PROXY TCP4", "PROXY UNKNOWN\x00", "PROXY TCP4 1.2.3.4 5.6.7.8 1000 2000\x00", "PROXY UNKNOWN " + strings.Repeat("x", 109-16),
		},
		v1Found: {"PROXY UNKNOWN", "PROXY UNKNOWN foo bar", "PROXY UNKNOWN ffff:f...f:ffff ffff:f..f 65535 65535", "PROXY UNKNOWN " + strings.Repeat("x", 108-16)},
		none:    {" PROXY UNKNOWN", "proxy TCP4 1.2.3.4 5.6.7.8 1000 2000", "PROXYTCP4 1.2.3.4 5.6.7.8 1 2", "\r\nabcdefghijklmnopqrst", "GET / HTTP/1.1", "hi", "PROXX", "\r\n\r\n\x00\rX"},
	} {
		for _, l := range lines {
			out = append(out, proxyCase{l, []byte(l + "\r\n"), stats, ""})
		}
	}
	for line, addrs := range map[string]string{
		"PROXY TCP4 1.2.3.4 5.6.7.8 1000 2000":         fourText,
		"PROXY TCP4 1.2.3.4 5.6.7.8 1000 2000 ":        fourText,
		"PROXY TCP4 1.2.3.4 5.6.7.8 1000 2000\r":       fourText,
		"PROXY TCP4 1.2.3.4 5.6.7.8 01000 2000":        fourText,
		"PROXY TCP4 1.2.3.4 5.6.7.8 0 0":               "1.2.3.4:0 5.6.7.8:0",
		"PROXY TCP4 240.0.0.1 5.6.7.8 1 2":             "240.0.0.1:1 5.6.7.8:2",
		"PROXY TCP6 2001:db8::1 2001:db8::2 1000 2000": sixText,
		"PROXY TCP6 ::ffff:1.2.3.4 ::ffff:5.6.7.8 1 2": "[::ffff:1.2.3.4]:1 [::ffff:5.6.7.8]:2",
	} {
		out = append(out, proxyCase{line, []byte(line + "\r\n"), v1Found, addrs})
	}
	v2 := func(stats, addrs string, versionCommand, family byte, body ...[]byte) {
		out = append(out, proxyCase{"version 2", v2Header(versionCommand, family, body...), stats, addrs})
	}
	v2(v2Found, fourText, 0x21, 0x11, four)
	v2(v2Found, fourText, 0x21, 0x12, four)
	v2(v2Found, sixText, 0x21, 0x21, six)
	v2(v2Found, sixText, 0x21, 0x22, six)
	v2(v2Found, "/a /b", 0x21, 0x31, unixName("/a"), unixName("/b"))
	v2(v2Found, "\x00x\x00y ", 0x21, 0x32, unixName("\x00x\x00y"), unixName(""))
	v2(v2Found, strings.Repeat("p", 108)+" /b", 0x21, 0x31, unixName(strings.Repeat("p", 108)), unixName("/b"))
	for _, family := range []byte{0x10, 0x13, 0x00, 0x41, 0x30} {
		v2(v2Error, "", 0x21, family, make([]byte, 216))
	}
	v2(v2Error, "", 0x21, 0x31, make([]byte, 215))
	v2(v2Error, "", 0x21, 0x00)
	v2(v2Found, "", 0x20, 0x00)
	v2(v2Found, "", 0x20, 0x99)
	v2(v2Found, "", 0x20, 0x11, four, []byte{1})
	v2(v2Error, "", 0x22, 0x11, four)
	v2(v2Error, "", 0x11, 0x11, four)
	v2(v2Error, "", 0x31, 0x11, four)
	v2(v2Error, "", 0x21, 0x11, four[:11])
	v2(v2Found, fourText, 0x21, 0x11, four, tlv(4, "x"), tlv(0xe0, "abc"), tlv(4, ""))
	v2(v2Found, fourText, 0x21, 0x11, four, tlv(4, strings.Repeat("z", 65535-15)))
	v2(v2Error, "", 0x21, 0x11, four, []byte{4})
	v2(v2Error, "", 0x21, 0x11, four, []byte{4, 0})
	v2(v2Error, "", 0x21, 0x11, four, []byte{4, 0, 5, 'a'})
	v2(v2Error, "", 0x21, 0x11, addresses("224.0.0.1", "1.1.1.1", 1, 2))
	v2(v2Error, "", 0x21, 0x11, addresses("1.1.1.1", "255.255.255.255", 1, 2))
	v2(v2Error, "", 0x21, 0x21, addresses("ff02::1", "::1", 1, 2))
	v2(v2Error, "", 0x21, 0x21, addresses("::1", "::", 1, 2))
	return out
}

func feedProxy(t testing.TB, p *ProxyProtocol, in []byte, step int) (ProxyHeader, Verdict) {
	t.Helper()
	scan := p.Start()
	for n := min(step, len(in)); ; n = min(n+step, len(in)) {
		buf := slices.Clone(in[:n])
		h, verdict := scan.Inspect(buf)
		for i := range buf {
			buf[i] = 0xee
		}
		if verdict != NeedMore || n == len(in) {
			return h, verdict
		}
	}
}

func (a ProxyAddr) text() string {
	if a.AddrPort.IsValid() {
		return a.AddrPort.String()
	}
	return a.Unix
}

func proxyCounters(h *ProxyHeader) string {
	var out []string
	h.Count(func(c string) { out = append(out, c) })
	return strings.Join(out, " ")
}

// Proves LF-08: addresses, counters and the length to consume, for whole and
// for split input, with data behind the header.
func TestProxyHeaders(t *testing.T) {
	p := proxyProtocol(t, nil)
	for _, c := range proxyCases() {
		for _, step := range []int{1 << 20, 1, 13} {
			if step == 1 && len(c.in) > 1000 {
				step = 500
			}
			h, verdict := feedProxy(t, p, cat(c.in, []byte("GET / HTTP/1.1\r\n\r\n")), step)
			if got := proxyCounters(&h); got != c.stats {
				t.Errorf("%.40q by %d: %q, want %q (%v)", c.in, step, got, c.stats, h.Err)
				continue
			}
			ok := strings.HasSuffix(c.stats, "found")
			if ok != (verdict == Done) || ok == (verdict == Reject) || ok != (h.Err == nil) || ok == h.IsError() || ok != (h.Length == len(c.in)) {
				t.Errorf("%.40q by %d: %v, length %d of %d, %v", c.in, step, verdict, h.Length, len(c.in), h.Err)
			}
			got := ""
			if ok && h.Proxied {
				got = h.Source.text() + " " + h.Destination.text()
			}
			if got != c.addrs {
				t.Errorf("%.40q by %d: %q, want %q", c.in, step, got, c.addrs)
			}
		}
	}
}

func TestProxyUndecided(t *testing.T) {
	whole := v2Header(0x21, 0x11, addresses("1.2.3.4", "5.6.7.8", 1, 2), tlv(4, strings.Repeat("z", 60000)))
	for _, in := range []string{
		"", "P", "PROXY ", "PROXY UNKNOWN\r", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", "PROXY UNKNOWN " + strings.Repeat("x", 107-14),
		"\r\n\r\n\x00\r", signatureV2, string(whole[:15]), string(whole[:20]), string(whole[:5000]), string(whole[:len(whole)-1]),
	} {
		if h, verdict := feedProxy(t, proxyProtocol(t, nil), []byte(in), max(1, len(in))); verdict != NeedMore {
			t.Errorf("%.40q: %v %+v", in, verdict, h)
		}
	}
}

// Proves LF-09 (allow_requests_without_proxy_protocol, disallowed_versions).
func TestProxyPolicies(t *testing.T) {
	v1, v2 := "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", string(v2Header(0x21, 0x11, addresses("1.2.3.4", "5.6.7.8", 1, 2)))
	type versions = []corev3.ProxyProtocolConfig_Version
	for _, c := range []struct {
		allow      bool
		disallowed versions
		in         string
		verdict    Verdict
		stats      string
	}{
		{true, nil, "GET / HTTP/1.1\r\n", Done, "not_found_allowed"},
		{true, nil, "h", Done, "not_found_allowed"},
		{true, nil, "PROXY\r\n", Done, "not_found_allowed"},
		{true, nil, "PRO", NeedMore, ""},
		{true, nil, v1, Done, "versions.v1.found"},
		{true, nil, v2, Done, "versions.v2.found"},
		{true, nil, "PROXY x\r\n", Reject, "versions.v1.error"},
		{false, versions{1}, v2, Reject, "versions.v2.found versions.v2.disallowed"},
		{false, versions{1}, v1, Done, "versions.v1.found"},
		{false, versions{0}, v1, Reject, "versions.v1.found versions.v1.disallowed"},
		{false, versions{0}, v2, Done, "versions.v2.found"},
		{false, versions{0}, "GET /\r\n", Reject, "not_found_disallowed"},
		{true, versions{1}, v2, Done, "not_found_allowed"},
		{true, versions{1}, v1, Done, "versions.v1.found"},
		{true, versions{0}, v1, Done, "not_found_allowed"},
		{true, versions{0, 0}, v2, Done, "versions.v2.found"},
	} {
		p := proxyProtocol(t, &proxy_protocolv3.ProxyProtocol{AllowRequestsWithoutProxyProtocol: c.allow, DisallowedVersions: c.disallowed})
		h, verdict := feedProxy(t, p, []byte(c.in), 1)
		if verdict != c.verdict || verdict != NeedMore && proxyCounters(&h) != c.stats {
			t.Errorf("%+v: %v %q %v", c, verdict, proxyCounters(&h), h.Err)
		}
		if h.Outcome == ProxyDisallowed && h.IsError() {
			t.Error("a disallowed version is no malformed header")
		}
		if h.Outcome == ProxyNotFound && h.Length != 0 {
			t.Errorf("%+v: would consume %d bytes", c, h.Length)
		}
	}
}

func rule(kind uint32, namespace, key string, encoding proxy_protocolv3.ProxyProtocol_KeyValuePair_ValueStringEncoding) *proxy_protocolv3.ProxyProtocol_Rule {
	return &proxy_protocolv3.ProxyProtocol_Rule{TlvType: kind, OnTlvPresent: &proxy_protocolv3.ProxyProtocol_KeyValuePair{
		MetadataNamespace: namespace, Key: key, ValueStringEncoding: encoding,
	}}
}

// Proves LF-09 (rules): what Envoy 1.40 logs for the same header and rules.
func TestProxyRules(t *testing.T) {
	in := v2Header(0x21, 0x11, addresses("1.2.3.4", "5.6.7.8", 1, 2), tlv(0xea, "first"), tlv(0xea, "second"), tlv(4, "\xff\xfeab\x00c"), tlv(5, ""))
	const ns = ProxyProtocolNamespace
	type rules = []*proxy_protocolv3.ProxyProtocol_Rule
	for _, c := range []struct {
		config            *proxy_protocolv3.ProxyProtocol
		metadata, inState []TLVField
	}{
		{&proxy_protocolv3.ProxyProtocol{}, nil, nil},
		{
			&proxy_protocolv3.ProxyProtocol{Rules: rules{rule(0xea, "", "e", 0), rule(4, "", "four", 1), rule(5, "", "five", 0), rule(6, "", "six", 0)}},
			[]TLVField{{ns, "e", "first", []byte("first")}, {ns, "four", "!!ab\x00c", []byte("\xff\xfeab\x00c")}, {ns, "five", "", nil}},
			nil,
		},
		{
			&proxy_protocolv3.ProxyProtocol{Rules: rules{rule(4, "", "four", 2), rule(0xea, "ns", "e", 0)}},
			[]TLVField{{"ns", "e", "first", []byte("first")}, {ns, "four", "//5hYgBj", []byte("\xff\xfeab\x00c")}},
			nil,
		},
		{&proxy_protocolv3.ProxyProtocol{Rules: rules{rule(0xea, "", "e", 0), rule(0xea, "", "e2", 0)}}, []TLVField{{ns, "e2", "first", []byte("first")}}, nil},
		{&proxy_protocolv3.ProxyProtocol{Rules: rules{{TlvType: 0xea}}}, []TLVField{{ns, "", "first", []byte("first")}}, nil},
		{
			&proxy_protocolv3.ProxyProtocol{Rules: rules{rule(0xea, "ns", "e", 0)}, TlvLocation: proxy_protocolv3.ProxyProtocol_FILTER_STATE},
			nil,
			[]TLVField{{"", "e", "second", []byte("second")}},
		},
	} {
		h, verdict := feedProxy(t, proxyProtocol(t, c.config), in, 9)
		if verdict != Done {
			t.Fatal(h.Err)
		}
		if diff := cmp.Diff(c.metadata, h.Metadata, cmpopts.EquateEmpty()) + cmp.Diff(c.inState, h.FilterState, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%v:\n%s", c.config, diff)
		}
		if len(h.TLVs) != 4 || h.TLVs[1].Type != 0xea || string(h.TLVs[1].Value) != "second" {
			t.Errorf("extensions %v", h.TLVs)
		}
	}
	local := v2Header(0x20, 0x11, addresses("1.2.3.4", "5.6.7.8", 1, 2), tlv(0xea, "x"))
	if h, _ := feedProxy(t, proxyProtocol(t, &proxy_protocolv3.ProxyProtocol{Rules: rules{rule(0xea, "", "e", 0)}}), local, 100); h.Metadata != nil || h.TLVs != nil || h.Proxied {
		t.Errorf("LOCAL: %+v", h)
	}
}

// Proves LF-09 (pass_through_tlvs).
func TestProxyPassThrough(t *testing.T) {
	in := v2Header(0x21, 0x11, addresses("1.2.3.4", "5.6.7.8", 1, 2), tlv(1, "a"), tlv(2, "b"), tlv(1, "c"))
	for want, c := range map[string]*corev3.ProxyProtocolPassThroughTLVs{
		"":    nil,
		"abc": {},
		"ac":  {MatchType: corev3.ProxyProtocolPassThroughTLVs_INCLUDE, TlvType: []uint32{1}},
		"b":   {MatchType: corev3.ProxyProtocolPassThroughTLVs_INCLUDE, TlvType: []uint32{2, 255}},
	} {
		h, _ := feedProxy(t, proxyProtocol(t, &proxy_protocolv3.ProxyProtocol{PassThroughTlvs: c}), in, 1000)
		got := ""
		for _, v := range h.PassThrough {
			got += string(v.Value)
		}
		if got != want {
			t.Errorf("%v: %q", c, got)
		}
	}
}

func TestProxyConfigurationErrors(t *testing.T) {
	type config = proxy_protocolv3.ProxyProtocol
	for want, c := range map[string]*config{
		"Proxy Protocol filter is misconfigured: all proxy protocol versions are disallowed.": {DisallowedVersions: []corev3.ProxyProtocolConfig_Version{0, 1}},
		"disallowed_versions[0]: 7":     {DisallowedVersions: []corev3.ProxyProtocolConfig_Version{7}},
		"rules[1].tlv_type: 256":        {Rules: []*proxy_protocolv3.ProxyProtocol_Rule{rule(1, "", "a", 0), rule(256, "", "a", 0)}},
		"rules[0].on_tlv_present.key":   {Rules: []*proxy_protocolv3.ProxyProtocol_Rule{rule(1, "n", "", 0)}},
		"value_string_encoding: 9":      {Rules: []*proxy_protocolv3.ProxyProtocol_Rule{rule(1, "n", "a", 9)}},
		"pass_through_tlvs.match_type":  {PassThroughTlvs: &corev3.ProxyProtocolPassThroughTLVs{MatchType: 5}},
		"pass_through_tlvs.tlv_type[0]": {PassThroughTlvs: &corev3.ProxyProtocolPassThroughTLVs{TlvType: []uint32{300}}},
		"tlv_location: 4":               {TlvLocation: 4},
	} {
		if _, err := NewProxyProtocol(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestProxyStatPrefix(t *testing.T) {
	for prefix, want := range map[string]string{"": "proxy_proto.", "foo": "proxy_proto.foo."} {
		if got := proxyProtocol(t, &proxy_protocolv3.ProxyProtocol{StatPrefix: prefix}).StatPrefix(); got != want {
			t.Errorf("%q", got)
		}
	}
}

// Proves OV-10 for the PROXY header: no panic, the same result for any split,
// never more than a header's worth of bytes, and every found header well formed.
func FuzzProxyHeader(f *testing.F) {
	for _, c := range proxyCases() {
		if len(c.in) < 1000 {
			f.Add(c.in, uint16(5), false, uint8(0))
			f.Add(c.in, uint16(2), true, uint8(2))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint16, allow bool, disallowed uint8) {
		c := &proxy_protocolv3.ProxyProtocol{AllowRequestsWithoutProxyProtocol: allow, Rules: []*proxy_protocolv3.ProxyProtocol_Rule{rule(4, "", "k", 0)}}
		if disallowed%3 > 0 {
			c.DisallowedVersions = []corev3.ProxyProtocolConfig_Version{corev3.ProxyProtocolConfig_Version(disallowed%3 - 1)}
		}
		p := proxyProtocol(t, c)
		whole, verdict := feedProxy(t, p, in, max(1, len(in)))
		split, splitVerdict := feedProxy(t, p, in, int(step)+1)
		ignoreErr := cmpopts.IgnoreFields(ProxyHeader{}, "Err")
		addrs := cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
		if diff := cmp.Diff(whole, split, ignoreErr, addrs); diff != "" || verdict != splitVerdict || (whole.Err == nil) != (split.Err == nil) {
			t.Fatalf("whole %v %+v\nsplit %v %+v\n%s", verdict, whole, splitVerdict, split, diff)
		}
		checkProxyHeader(t, in, &whole, verdict)
	})
}

func checkProxyHeader(t *testing.T, in []byte, h *ProxyHeader, verdict Verdict) {
	t.Helper()
	if verdict == NeedMore && len(in) >= headerV2+65535 {
		t.Fatal("undecided")
	}
	if h.Length > len(in) || (h.Outcome == ProxyFound) != (h.Length > 0) || (verdict == Reject) != (h.Err != nil) {
		t.Fatalf("%v %+v", verdict, h)
	}
	if h.Version == 2 && h.Outcome == ProxyFound && h.Length != headerV2+int(binary.BigEndian.Uint16(in[14:])) {
		t.Fatalf("length %d", h.Length)
	}
	s, d := h.Source.AddrPort, h.Destination.AddrPort
	if s.IsValid() != d.IsValid() || s.IsValid() && s.Addr().Is4() != d.Addr().Is4() {
		t.Fatalf("%v, %v", s, d)
	}
}

func BenchmarkProxyHeader(b *testing.B) {
	p := proxyProtocol(b, nil)
	for name, in := range map[string][]byte{
		"v1": []byte("PROXY TCP4 1.2.3.4 5.6.7.8 1000 2000\r\n"),
		"v2": v2Header(0x21, 0x11, addresses("1.2.3.4", "5.6.7.8", 1, 2)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scan := p.Start()
				if _, verdict := scan.Inspect(in); verdict != Done {
					b.Fatal(verdict)
				}
			}
		})
	}
}
