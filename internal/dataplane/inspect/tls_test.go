package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func tlsInspector(t testing.TB, c *tlsinspectorv3.TlsInspector) *TLSInspector {
	t.Helper()
	i, err := NewTLSInspector(c)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func counters(h *ClientHello) string {
	var out []string
	h.Count(func(c string) { out = append(out, c) })
	slices.Sort(out)
	return strings.Join(out, " ")
}

const (
	statsRaw   = "tls_not_found"
	statsPlain = "alpn_not_found sni_not_found tls_found"
	statsALPN  = "alpn_found sni_not_found tls_found"
	statsSNI   = "alpn_not_found sni_found tls_found"
	statsAll   = "alpn_found sni_found tls_found"
	statsLarge = "client_hello_too_large"
)

type helloCase struct {
	name  string
	in    []byte
	stats string
	sni   string
}

// Each line is what Envoy 1.40 counted for the same bytes.
func helloCases() []helloCase {
	full := helloWith(sniOf(0, "a.com"), alpnOf("h2"))
	with := func(change func(*hello)) []byte {
		h := helloWith()
		change(&h)
		return h.record()
	}
	cipher := []byte{0, 0, 0x2f}
	empties := func(n int) []byte { return bytes.Repeat(record(22, 0x0301, nil), n) }
	return []helloCase{
		{"name and protocol", full.record(), statsAll, "a.com"},
		{"no extensions field", with(func(h *hello) { h.extensions = nil }), statsPlain, ""},
		{"no extensions", helloWith().record(), statsPlain, ""},
		{"upper case", helloWith(sniOf(0, "WwW.A.Com")).record(), statsSNI, "www.a.com"},
		{"trailing dot", helloWith(sniOf(0, "a.com.")).record(), statsSNI, "a.com."},
		{"address as name", helloWith(sniOf(0, "10.0.0.1")).record(), statsSNI, "10.0.0.1"},
		{"any bytes as name", helloWith(sniOf(0, "a b\x01\xff")).record(), statsSNI, "a b\x01\xff"},
		{"longest name", helloWith(sniOf(0, strings.Repeat("a", 255))).record(), statsSNI, strings.Repeat("a", 255)},
		{"name too long", helloWith(sniOf(0, strings.Repeat("a", 256))).record(), statsRaw, ""},
		{"empty name", helloWith(sniOf(0, "")).record(), statsRaw, ""},
		{"zero byte in name", helloWith(sniOf(0, "a\x00.com")).record(), statsRaw, ""},
		{"name of another type", helloWith(sniOf(1, "a.com")).record(), statsRaw, ""},
		{"two names", helloWith(extension(0, vec16([]byte("\x00\x00\x05a.com\x00\x00\x05b.com")))).record(), statsRaw, ""},
		{"empty name extension", helloWith(extension(0, nil)).record(), statsRaw, ""},
		{"bytes after the name list", helloWith(extension(0, []byte("\x00\x08\x00\x00\x05a.comx"))).record(), statsRaw, ""},
		{"protocol", helloWith(alpnOf("h2")).record(), statsALPN, ""},
		{"protocol list cut", helloWith(extension(16, []byte("\x00\x05\x02h2"))).record(), statsPlain, ""},
		{"empty protocol list", helloWith(extension(16, []byte{0, 0})).record(), statsPlain, ""},
		{"empty protocol", helloWith(alpnOf("", "h2")).record(), statsPlain, ""},
		{"empty protocol at the end", helloWith(alpnOf("h2", "")).record(), statsPlain, ""},
		{"bytes after the protocols", helloWith(extension(16, []byte("\x00\x03\x02h2x"))).record(), statsPlain, ""},
		{"extension twice", helloWith(alpnOf("h2"), alpnOf("h2")).record(), statsRaw, ""},
		{"unknown extension twice", helloWith(extension(9999, nil), extension(9999, nil)).record(), statsRaw, ""},
		{"content of other extensions", helloWith(extension(43, []byte{3, 3, 4}), extension(51, []byte{0, 9}), extension(10, nil), alpnOf("h2")).record(), statsALPN, ""},
		{"SSL 3", with(func(h *hello) { h.version = 0x0300 }), "sni_not_found tls_not_found", ""},
		{"TLS 1.0", with(func(h *hello) { h.version = 0x0301 }), statsPlain, ""},
		{"TLS 1.3 as legacy version", with(func(h *hello) { h.version = 0x0304 }), statsPlain, ""},
		{"beyond TLS 1.3", with(func(h *hello) { h.version = 0x0305 }), "sni_not_found tls_not_found", ""},
		{"DTLS", with(func(h *hello) { h.version = 0xfefd }), "sni_not_found tls_not_found", ""},
		{"longest session id", with(func(h *hello) { h.session = make([]byte, 32) }), statsPlain, ""},
		{"session id too long", with(func(h *hello) { h.session = make([]byte, 33) }), statsRaw, ""},
		{"no cipher suite", with(func(h *hello) { h.ciphers = nil }), statsRaw, ""},
		{"half a cipher suite", with(func(h *hello) { h.ciphers = []byte{0, 1, 2} }), statsRaw, ""},
		{"no compression", with(func(h *hello) { h.compression = nil }), statsRaw, ""},
		{"compression other than null", with(func(h *hello) { h.compression = []byte{1} }), statsPlain, ""},
		{"bytes after the extensions", with(func(h *hello) { h.extensions = append(h.extensions, 'x') }), statsRaw, ""},
		{"extensions cut", with(func(h *hello) { h.extensions = []byte{0, 5, 0} }), statsRaw, ""},
		{"one extension cut", with(func(h *hello) { h.extensions = vec16([]byte("\x00\x01\x00\x05x")) }), statsRaw, ""},
		{"half an extension length", with(func(h *hello) { h.extensions = []byte{0} }), statsRaw, ""},
		{"record of SSL 3", record(22, 0x0300, full.message()), statsAll, "a.com"},
		{"record of 3.255", record(22, 0x03ff, full.message()), statsAll, "a.com"},
		{"record of SSL 2", record(22, 0x0200, full.message()), statsRaw, ""},
		{"ServerHello", record(22, 0x0301, handshake(2, full.message()[4:])), statsRaw, ""},
		{"HelloRequest", record(22, 0x0301, handshake(0, nil)), statsRaw, ""},
		{"a record for each byte", records(full.message(), 1), statsAll, "a.com"},
		{"a record for each four bytes", records(full.message(), 4), statsAll, "a.com"},
		{"32 empty records", cat(empties(32), full.record()), statsAll, "a.com"},
		{"33 empty records", cat(empties(33), full.record()), statsRaw, ""},
		{"33 empty records in between", cat(records(full.message()[:10], 10), empties(33), records(full.message()[10:], 900)), statsRaw, ""},
		{"twice 32 empty records", cat(empties(32), records(full.message()[:10], 10), empties(32), records(full.message()[10:], 900)), statsAll, "a.com"},
		{"alert", record(21, 0x0301, []byte{2, 0x28}), statsRaw, ""},
		{"change cipher spec first", cat(record(20, 0x0301, []byte{1}), full.record()), statsRaw, ""},
		{"application data", record(23, 0x0301, []byte("hello")), statsRaw, ""},
		{"other record in between", cat(records(full.message()[:10], 10), record(23, 0x0301, []byte("x"))), statsRaw, ""},
		{"second message in the record", record(22, 0x0301, cat(full.message(), handshake(2, []byte("x")))), statsRaw, ""},
		{"extensions after the message", record(22, 0x0301, cat(hello{version: 0x0303, ciphers: []byte{0, 0x2f}, compression: []byte{0}}.message(), vec16(alpnOf("h2")))), statsRaw, ""},
		{"bytes after the record", cat(full.record(), []byte(strings.Repeat("x", 20000))), statsAll, "a.com"},
		{"SSL 2 framing", v2Hello(0x0301, bytes.Repeat(cipher, 7), nil, make([]byte, 16)), statsPlain, ""},
		{"SSL 2 framing, session id", v2Hello(0x0303, cipher, make([]byte, 18), make([]byte, 16)), statsPlain, ""},
		{"SSL 2 framing, bytes after it", cat(v2Hello(0x0301, cipher, nil, make([]byte, 8)), []byte("zzz")), statsPlain, ""},
		{"SSL 2 framing, SSL 3", v2Hello(0x0300, cipher, nil, make([]byte, 16)), "sni_not_found tls_not_found", ""},
		{"SSL 2", v2Hello(0x0002, cipher, nil, make([]byte, 16)), statsRaw, ""},
		{"SSL 2 framing, SSL 2 ciphers only", v2Hello(0x0301, []byte{1, 0, 0x2f}, nil, make([]byte, 16)), statsRaw, ""},
		{"SSL 2 framing, half a cipher", v2Hello(0x0301, []byte{0, 0, 0x2f, 0}, nil, make([]byte, 16)), statsRaw, ""},
		{"SSL 2 framing, too short", []byte{0x80, 2, 1, 3, 1}, statsRaw, ""},
		{"SSL 2 framing, too long", []byte{0x90, 1, 1, 3, 1}, statsRaw, ""},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), statsRaw, ""},
		{"one byte", []byte("h"), statsRaw, ""},
		{"much plain text", bytes.Repeat([]byte("x"), 20000), statsRaw, ""},
		{"largest", record(22, 0x0301, messageOf(MaxClientHello-5)), statsSNI, "a.com"},
		{"largest in two records", records(messageOf(MaxClientHello-10), 16000), statsSNI, "a.com"},
		{"one byte too large", record(22, 0x0301, messageOf(MaxClientHello-4)), statsLarge, ""},
		{"too large by its records", records(messageOf(MaxClientHello-5), 16000), statsLarge, ""},
		{"too large in records", records(messageOf(MaxClientHello), 8000), statsLarge, ""},
		{"record of 16385", []byte{22, 3, 1, 0x40, 1}, statsLarge, ""},
		{"record of 16704", []byte{22, 3, 1, 0x41, 0x40}, statsLarge, ""},
		{"record of 16705", []byte{22, 3, 1, 0x41, 0x41}, statsRaw, ""},
		{"message of 16385", record(22, 0x0301, cat([]byte{1, 0, 0x40, 1}, make([]byte, 90))), statsRaw, ""},
		{"message of 100000", record(22, 0x0301, cat([]byte{1, 1, 0x86, 0xa0}, make([]byte, 90))), statsRaw, ""},
	}
}

// Proves LF-04 and LF-06: outcome and counters of whole and of split input.
func TestClientHellos(t *testing.T) {
	inspector := tlsInspector(t, nil)
	for _, c := range helloCases() {
		t.Run(c.name, func(t *testing.T) {
			for _, step := range []int{len(c.in), 1, 3, 1000} {
				h, verdict := feedHello(t, inspector, c.in, step)
				if verdict == NeedMore {
					t.Fatal("undecided")
				}
				if got := counters(&h); got != c.stats || h.SNI != c.sni {
					t.Errorf("step %d: counters %q, name %q (%v)\nwant %q, %q", step, got, h.SNI, h.Err, c.stats, c.sni)
				}
				wantReject := c.stats == statsLarge || strings.Contains(c.stats, "sni") && strings.Contains(c.stats, "tls_not_found")
				if (verdict == Reject) != wantReject {
					t.Errorf("step %d: %v", step, verdict)
				}
				if found := strings.Contains(c.stats, "tls_found"); (h.Transport() == "tls") != found || (h.Err == nil) != found {
					t.Errorf("step %d: transport %s, error %v", step, h.Transport(), h.Err)
				}
			}
		})
	}
}

// feedHello passes in step by step, every time in a new buffer that is
// overwritten afterwards.
func feedHello(t testing.TB, inspector *TLSInspector, in []byte, step int) (ClientHello, Verdict) {
	t.Helper()
	scan := inspector.Start()
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

// Proves LF-06 (close_connection_on_client_hello_parsing_errors).
func TestCloseOnParsingErrors(t *testing.T) {
	inspector := tlsInspector(t, &tlsinspectorv3.TlsInspector{CloseConnectionOnClientHelloParsingErrors: true})
	for _, c := range helloCases() {
		h, verdict := feedHello(t, inspector, c.in, len(c.in))
		if got := counters(&h); got != c.stats {
			t.Errorf("%s: counters %q", c.name, got)
		}
		if want := !strings.Contains(c.stats, "tls_found"); (verdict == Reject) != want {
			t.Errorf("%s: %v", c.name, verdict)
		}
	}
}

// Proves LF-06 (max_client_hello_size).
func TestMaxClientHelloSize(t *testing.T) {
	inspector := tlsInspector(t, &tlsinspectorv3.TlsInspector{MaxClientHelloSize: wrapperspb.UInt32(300)})
	for _, c := range []struct {
		in    []byte
		stats string
	}{
		{record(22, 0x0301, messageOf(295)), statsSNI},
		{record(22, 0x0301, messageOf(296)), statsLarge},
		{records(messageOf(290), 145), statsSNI},
		{records(messageOf(291), 146), statsLarge},
		{v2Hello(0x0301, make([]byte, 300), nil, make([]byte, 16)), statsLarge},
		{bytes.Repeat([]byte("x"), 1000), statsRaw},
	} {
		h, _ := feedHello(t, inspector, c.in, len(c.in))
		if got := counters(&h); got != c.stats {
			t.Errorf("%d bytes: %q, want %q", len(c.in), got, c.stats)
		}
	}
}

func TestUndecided(t *testing.T) {
	full := helloWith(sniOf(0, "a.com")).record()
	for _, in := range [][]byte{nil, full[:1], full[:4], full[:5], full[:len(full)-1], {0x80}, {0x80, 0x2e, 1, 3}, v2Hello(0x0301, []byte{0, 0, 1}, nil, nil)[:8]} {
		if h, verdict := feedHello(t, tlsInspector(t, nil), in, max(1, len(in))); verdict != NeedMore {
			t.Errorf("%x: %v %+v", in, verdict, h)
		}
	}
}

func TestVersions(t *testing.T) {
	for data, want := range map[string][]uint16{
		"\x06\x0a\x0a\x03\x04\x03\x03": {0x0a0a, 0x0304, 0x0303},
		"\x00":                         nil,
		"\x03\x03\x04\x03":             nil,
		"\x02\x03\x04x":                nil,
	} {
		h, _ := feedHello(t, tlsInspector(t, nil), helloWith(extension(43, []byte(data))).record(), 1000)
		if !slices.Equal(h.Versions, want) || h.Version != 0x0303 || h.Outcome != HelloFound {
			t.Errorf("%x: %+v", data, h)
		}
	}
}

func TestFailureReason(t *testing.T) {
	for want, in := range map[string][]byte{
		"":                       helloWith().record(),
		"ClientHelloNotDetected": []byte("x"),
		"ClientHelloTooLarge":    {22, 3, 1, 0x40, 1},
	} {
		h, _ := feedHello(t, tlsInspector(t, nil), in, len(in))
		if got := h.FailureReason(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The refusal of LF-07, and the ranges of LF-06.
func TestTLSInspectorConfigurationErrors(t *testing.T) {
	on := wrapperspb.Bool(true)
	for want, c := range map[string]*tlsinspectorv3.TlsInspector{
		"enable_ja3_fingerprinting: not implemented": {EnableJa3Fingerprinting: on},
		"enable_ja4_fingerprinting: not implemented": {EnableJa4Fingerprinting: on},
		"max_client_hello_size: 16385":               {MaxClientHelloSize: wrapperspb.UInt32(16385)},
		"max_client_hello_size: 255":                 {MaxClientHelloSize: wrapperspb.UInt32(255)},
		"initial_read_buffer_size: 255":              {InitialReadBufferSize: wrapperspb.UInt32(255)},
		"initial_read_buffer_size: 65537":            {InitialReadBufferSize: wrapperspb.UInt32(65537)},
	} {
		if _, err := NewTLSInspector(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v", c, err)
		}
	}
	if _, err := NewTLSInspector(&tlsinspectorv3.TlsInspector{EnableJa3Fingerprinting: wrapperspb.Bool(false), InitialReadBufferSize: wrapperspb.UInt32(512)}); err != nil {
		t.Error(err)
	}
}
