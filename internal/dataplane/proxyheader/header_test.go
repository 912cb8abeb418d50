package proxyheader

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// read makes a configuration of JSON.
func read(t testing.TB, text string, inner *Config) (*Config, error) {
	t.Helper()
	m := &upstreamv3.ProxyProtocolUpstreamTransport{}
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return New(m, inner, format.Options{})
}

func must(t testing.TB, text string) *Config {
	t.Helper()
	c, err := read(t, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ip(s string) filter.Address { return filter.IPAddress(netip.MustParseAddrPort(s)) }

func tlv(kind byte, value string) inspect.TLV { return inspect.TLV{Type: kind, Value: []byte(value)} }

// perHost is metadata with TLVs of a host.
func perHost(t testing.TB, text string) *corev3.Metadata {
	t.Helper()
	m := &corev3.PerHostConfig{}
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{HostNamespace: a}}
}

const signature = "\r\n\r\n\x00\r\nQUIT\n"

// told is a version 2 header for IPv4, with TLVs as "type=value".
func told(tlvs ...string) string {
	body := "\x01\x02\x03\x04\x05\x06\x07\x08\x03\xe8\x00\x50"
	for _, t := range tlvs {
		var kind byte
		_, value, _ := strings.Cut(t, "=")
		_, _ = fmt.Sscanf(t, "%x=", &kind)
		body += string(binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(value)))) + value
	}
	return signature + "\x21\x11" + string(binary.BigEndian.AppendUint16(nil, uint16(len(body)))) + body
}

// Partly proves TS-24: the bytes of headers, as Envoy writes them: whose addresses they
// have, which TLVs and in which order.
func TestHeaders(t *testing.T) {
	here := &Source{From: ip("1.2.3.4:1000"), To: ip("5.6.7.8:80")}
	with := func(tlvs ...inspect.TLV) *Source {
		return &Source{From: here.From, To: here.To, TLVs: tlvs}
	}
	six := &Source{From: ip("[2001:db8::1]:1"), To: ip("[::1]:2")}
	unix := &Source{From: filter.PipeAddress(""), To: filter.PipeAddress("/run/s"), TLVs: []inspect.TLV{tlv(1, "a")}}
	came := with(tlv(0xe0, "x"), tlv(0xe0, "y"), tlv(0xf0, "came"), tlv(1, "h2"))
	const added = `"addedTlvs": [{"type": 240, "value": "Y2Zn"}, {"type": 241, "value": "YQ=="}, {"type": 241, "value": "Yg=="}]`
	host := perHost(t, `{"addedTlvs": [{"type": 240, "value": "aG9zdA=="}, {"type": 242, "value": "YQ=="}, {"type": 242}]}`)
	for _, c := range []struct {
		name, config string
		from         *Source
		host         *corev3.Metadata
		want         string
	}{
		{"version 1 is the default", `{}`, here, nil, "PROXY TCP4 1.2.3.4 5.6.7.8 1000 80\r\n"},
		{"version 1 has no TLVs", `{"config": {"passThroughTlvs": {}, ` + added + `}}`, came, host, "PROXY TCP4 1.2.3.4 5.6.7.8 1000 80\r\n"},
		{"version 1, IPv6", `{}`, six, nil, "PROXY TCP6 2001:db8::1 ::1 1 2\r\n"},
		{"version 1, UNIX", `{}`, unix, nil, "PROXY UNKNOWN\r\n"},
		{"version 1, nobody", `{}`, nil, nil, "PROXY TCP4 10.0.0.1 10.0.0.2 40000 8080\r\n"},
		{"version 2", `{"config": {"version": "V2"}}`, came, nil, told()},
		{"version 2, IPv6", `{"config": {"version": "V2"}}`, six, nil, signature + "\x21\x21\x00\x24" + "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01" + strings.Repeat("\x00", 15) + "\x01\x00\x01\x00\x02"},
		{"version 2, UNIX", `{"config": {"version": "V2", "passThroughTlvs": {}, ` + added + `}}`, unix, host, signature + "\x20\x00\x00\x00"},
		{"version 2, nobody", `{"config": {"version": "V2", "passThroughTlvs": {}, ` + added + `}}`, nil, host, signature + "\x20\x00\x00\x00"},
		{"all TLVs", `{"config": {"version": "V2", "passThroughTlvs": {"tlvType": [1]}}}`, came, nil, told("e0=x", "e0=y", "f0=came", "01=h2")},
		{"some TLVs", `{"config": {"version": "V2", "passThroughTlvs": {"matchType": "INCLUDE", "tlvType": [1, 224]}}}`, came, nil, told("e0=x", "e0=y", "01=h2")},
		{"none of the TLVs", `{"config": {"version": "V2", "passThroughTlvs": {"matchType": "INCLUDE"}}}`, came, nil, told()},
		{"added", `{"config": {"version": "V2", ` + added + `}}`, came, nil, told("f0=cfg", "f1=a", "f1=b")},
		{"added win over what came", `{"config": {"version": "V2", "passThroughTlvs": {}, ` + added + `}}`, came, nil, told("f0=cfg", "f1=a", "f1=b", "e0=x", "e0=y", "01=h2")},
		{"the host's win", `{"config": {"version": "V2", "passThroughTlvs": {}, ` + added + `}}`, came, host, told("f0=host", "f2=a", "f2=", "f1=a", "f1=b", "e0=x", "e0=y", "01=h2")},
		{
			"formatted", `{"config": {"version": "V2", "addedTlvs": [
				{"type": 240, "formatString": {"textFormatSource": {"inlineString": "%UPSTREAM_HOST% %DOWNSTREAM_LOCAL_ADDRESS% %CONNECTION_ID% %UPSTREAM_METADATA(n:k)%"}}},
				{"type": 241, "formatString": {"textFormatSource": {"inlineString": "%PROTOCOL%"}}},
				{"type": 241, "value": "YQ=="}]}}`, here, nil, told("f1=a", "f0=10.0.0.2:8080 10.0.0.1:40000 7 -", "f1=-"),
		},
		{
			"formatted as nothing", `{"config": {"version": "V2", "passThroughTlvs": {}, "addedTlvs": [
				{"type": 240, "formatString": {"textFormatSource": {"inlineString": "%PROTOCOL%"}, "omitEmptyValues": true}}]}}`, with(tlv(0xf0, "came")), nil, told("f0=came"),
		},
		{
			"formatted, and of the host", `{"config": {"version": "V2", "addedTlvs": [
				{"type": 240, "formatString": {"textFormatSource": {"inlineString": "a"}}}]}}`, here, host, told("f0=host", "f2=a", "f2="),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := &Upstream{ID: 7, Local: ip("10.0.0.1:40000"), Remote: ip("10.0.0.2:8080"), Metadata: c.host, Start: time.Unix(0, 0)}
			got, complete := must(t, c.config).Append([]byte("before"), c.from, up)
			if string(got) != "before"+c.want || !complete {
				t.Errorf("got  %q, %v\nwant %q", got, complete, "before"+c.want)
			}
		})
	}
}

// Partly proves TS-24: a header is no longer than its length can say; a TLV that has no
// room is left out, and those behind it are tried.
func TestHeadersThatAreTooLong(t *testing.T) {
	const room = 65535 - 12 - 3
	conf := must(t, `{"config": {"version": "V2", "passThroughTlvs": {}}}`)
	for _, c := range []struct {
		tlvs     []inspect.TLV
		want     []int // the lengths of those that are sent
		complete bool
	}{
		{[]inspect.TLV{tlv(1, strings.Repeat("a", room))}, []int{room}, true},
		{[]inspect.TLV{tlv(1, strings.Repeat("a", room+1))}, nil, false},
		{[]inspect.TLV{tlv(1, strings.Repeat("a", 40000)), tlv(2, strings.Repeat("b", 30000)), tlv(3, "c")}, []int{40000, 1}, false},
		{[]inspect.TLV{tlv(1, strings.Repeat("a", room-3)), tlv(2, ""), tlv(3, "")}, []int{room - 3, 0}, false},
	} {
		got, complete := conf.Append(nil, &Source{From: ip("1.2.3.4:1"), To: ip("5.6.7.8:2"), TLVs: c.tlvs}, &Upstream{})
		h := parsed(t, got)
		var lengths []int
		for _, t := range h.TLVs {
			lengths = append(lengths, len(t.Value))
		}
		if !slices.Equal(lengths, c.want) || complete != c.complete {
			t.Errorf("%v were sent, %v; want %v, %v", lengths, complete, c.want, c.complete)
		}
	}
	big := must(t, `{"config": {"version": "V2", "passThroughTlvs": {}, "addedTlvs": [{"type": 1, "formatString": {"textFormatSource": {"inlineString": "`+strings.Repeat("z", 70000)+`"}}}]}}`)
	got, complete := big.Append(nil, &Source{From: ip("1.2.3.4:1"), To: ip("5.6.7.8:2"), TLVs: []inspect.TLV{tlv(1, "came")}}, &Upstream{})
	if h := parsed(t, got); len(h.TLVs) > 0 || complete {
		t.Errorf("of a type that is added and has no room, %v was sent, %v", h.TLVs, complete)
	}
}

// parsed is what the listener filter makes of one header and nothing else.
func parsed(t testing.TB, b []byte) inspect.ProxyHeader {
	t.Helper()
	conf, err := inspect.NewProxyProtocol(nil)
	if err != nil {
		t.Fatal(err)
	}
	scan := conf.Start()
	h, verdict := scan.Inspect(b)
	if verdict != inspect.Done || h.Length != len(b) {
		t.Fatalf("of %d bytes %d are a header, %v: %v", len(b), h.Length, verdict, h.Err)
	}
	return h
}

// Partly proves TS-24: a socket within a socket sends its own header behind.
func TestHeaderWithinHeader(t *testing.T) {
	c, err := read(t, `{"config": {"version": "V2"}, "tlvAsPoolKey": true}`, must(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	got, _ := c.Append(nil, &Source{From: ip("1.2.3.4:1000"), To: ip("5.6.7.8:80")}, &Upstream{})
	if want := told() + "PROXY TCP4 1.2.3.4 5.6.7.8 1000 80\r\n"; string(got) != want {
		t.Errorf("got %q", got)
	}
}

// Partly proves TS-24: sources are told apart by their addresses, and by the TLVs that
// are passed on if tlv_as_pool_key says so.
func TestKeys(t *testing.T) {
	a := Source{From: ip("1.2.3.4:1"), To: ip("5.6.7.8:2")}
	others := map[string]Source{
		"port":    {From: ip("1.2.3.4:2"), To: a.To},
		"to":      {From: a.From, To: ip("5.6.7.8:3")},
		"swapped": {From: a.To, To: a.From},
		"IPv6":    {From: ip("[::ffff:102:304]:1"), To: ip("[1::2]:2")},
		"zone":    {From: ip("[fe80::1%a]:1"), To: ip("[fe80::1]:2")},
		"zone b":  {From: ip("[fe80::1%b]:1"), To: ip("[fe80::1]:2")},
		"UNIX":    {From: filter.PipeAddress("a"), To: filter.PipeAddress("bc")},
		"UNIX 2":  {From: filter.PipeAddress("ab"), To: filter.PipeAddress("c")},
	}
	key := func(c *Config, s Source) string { return string(c.AppendKey(nil, &s)) }
	plain := must(t, `{"config": {"version": "V2", "passThroughTlvs": {}}}`)
	seen := map[string]string{key(plain, a): "a"}
	for name, o := range others {
		k := key(plain, o)
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s have the same key", name, other)
		}
		seen[k] = name
	}
	withTLVs := a
	withTLVs.TLVs = []inspect.TLV{tlv(1, "a"), tlv(2, "b")}
	one := a
	one.TLVs = []inspect.TLV{tlv(1, "a"), tlv(3, "c")}
	if key(plain, a) != key(plain, withTLVs) {
		t.Error("TLVs tell sources apart although they are not configured to")
	}
	telling := must(t, `{"config": {"version": "V2", "passThroughTlvs": {"matchType": "INCLUDE", "tlvType": [1]}}, "tlvAsPoolKey": true}`)
	if key(telling, a) == key(telling, withTLVs) {
		t.Error("TLVs do not tell sources apart")
	}
	if key(telling, one) != key(telling, withTLVs) {
		t.Error("TLVs that are not passed on tell sources apart")
	}
	nested, err := read(t, `{}`, telling)
	if err != nil {
		t.Fatal(err)
	}
	if key(nested, a) == key(nested, withTLVs) {
		t.Error("TLVs of the socket within do not tell sources apart")
	}
	var room [128]byte
	if n := testing.AllocsPerRun(100, func() { _ = telling.AppendKey(room[:0], &withTLVs) }); n > 0 {
		t.Errorf("a key takes %v allocations", n)
	}
}

// Partly proves TS-24: what Envoy refuses is refused in its words, and what is not
// built by name.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"allowUnspecifiedAddress": true}`:                                                                           "allow_unspecified_address: known but not built",
		`{"config": {"version": 7}}`:                                                                                  "config.version: 7 is not one of V1, V2",
		`{"config": {"passThroughTlvs": {"matchType": 9}}}`:                                                           "config.pass_through_tlvs.match_type: 9 is not one of",
		`{"config": {"passThroughTlvs": {"tlvType": [1, 300]}}}`:                                                      "config.pass_through_tlvs.tlv_type[1]: 300: value must be less than 256",
		`{"config": {"addedTlvs": [{"type": 256, "value": "YQ=="}]}}`:                                                 "config.added_tlvs[0].type: 256: value must be less than 256",
		`{"config": {"addedTlvs": [{"type": 1}]}}`:                                                                    "config.added_tlvs[0]: Invalid TLV configuration: one of 'value' or 'format_string' must be set.",
		`{"config": {"addedTlvs": [{"type": 1, "formatString": {}}]}}`:                                                "config.added_tlvs[0].format_string: no format is given",
		`{"config": {"addedTlvs": [{"value": "YQ==", "formatString": {"textFormatSource": {"inlineString": "a"}}}]}}`: "config.added_tlvs[0]: Invalid TLV configuration: only one of 'value' or 'format_string' may be set.",
		`{"config": {"addedTlvs": [{"formatString": {"textFormatSource": {"inlineString": "%NOSUCH%"}}}]}}`:           "config.added_tlvs[0].format_string: Not supported field in StreamInfo: NOSUCH",
	} {
		if _, err := read(t, text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	wrong, err := anypb.New(&corev3.TlvEntry{Type: 1})
	if err != nil {
		t.Fatal(err)
	}
	const at = "typed_filter_metadata[envoy.transport_sockets.proxy_protocol]"
	for want, m := range map[string]*corev3.Metadata{
		"": {},
		at + ".added_tlvs[0].type: 300: value must be less than 256": perHost(t, `{"addedTlvs": [{"type": 300}]}`),
		at + ".added_tlvs[1].format_string: it is for":               perHost(t, `{"addedTlvs": [{}, {"formatString": {}}]}`),
		at + ": it has to be an envoy.config.core.v3.PerHostConfig":  {TypedFilterMetadata: map[string]*anypb.Any{HostNamespace: wrong}},
	} {
		switch err := CheckHost(m); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, not %q", err, want)
		}
	}
	if err := CheckHost(perHost(t, `{"addedTlvs": [{"type": 255, "value": "YQ=="}, {}]}`)); err != nil {
		t.Error(err)
	}
}

// Partly proves TS-24: what is written is what the proxy_protocol listener filter reads.
func FuzzHeaderIsRead(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4}, []byte{5, 6, 7, 8}, uint16(1), uint16(2), []byte("\x01\x03abc\x02\x00"), true, false)
	f.Add(bytes.Repeat([]byte{0x20}, 16), bytes.Repeat([]byte{0x30}, 16), uint16(65535), uint16(0), []byte("\xe0\xffx"), false, true)
	f.Fuzz(func(t *testing.T, from, to []byte, fromPort, toPort uint16, packed []byte, v2, all bool) {
		a, ok1 := netip.AddrFromSlice(from)
		b, ok2 := netip.AddrFromSlice(to)
		if !ok1 || !ok2 || a.Is4In6() || b.Is4In6() || unusable(a) || unusable(b) {
			return
		}
		s := &Source{From: filter.IPAddress(netip.AddrPortFrom(a, fromPort)), To: filter.IPAddress(netip.AddrPortFrom(b, toPort)), TLVs: unpack(packed)}
		c := &Config{version: 1, passAll: all}
		if v2 {
			c.version = 2
		}
		c.pass[1] = true
		out, complete := c.Append(nil, s, &Upstream{})
		h := parsed(t, out)
		if known := a.Is4() == b.Is4(); h.Version != c.version || h.Proxied != known || !complete {
			t.Fatalf("%+v is not version %d of %v and %v", h, c.version, s.From, s.To)
		} else if known && (h.Source.AddrPort != s.From.IP || h.Destination.AddrPort != s.To.IP) {
			t.Fatalf("%+v is not of %v and %v", h, s.From, s.To)
		}
		var want []inspect.TLV
		for _, t := range s.TLVs {
			if c.passes(t.Type) && v2 && h.Proxied {
				want = append(want, t)
			}
		}
		if !slices.EqualFunc(h.TLVs, want, func(x, y inspect.TLV) bool { return x.Type == y.Type && bytes.Equal(x.Value, y.Value) }) {
			t.Fatalf("%v were sent, %v read", want, h.TLVs)
		}
	})
}

// unusable is what no end of a connection can have.
func unusable(a netip.Addr) bool {
	return a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// unpack makes TLVs of bytes: a type, a length, so much of a value as there is.
func unpack(b []byte) (list []inspect.TLV) {
	for len(b) >= 2 && len(list) < 100 {
		n := min(int(b[1]), len(b)-2)
		list = append(list, inspect.TLV{Type: b[0], Value: b[2 : 2+n]})
		b = b[2+n:]
	}
	return list
}
