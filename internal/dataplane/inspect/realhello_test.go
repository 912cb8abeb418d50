package inspect

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// script is a connection that reads from a buffer and collects what is written.
type script struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (s *script) Read(b []byte) (int, error)       { return s.in.Read(b) }
func (s *script) Write(b []byte) (int, error)      { return s.out.Write(b) }
func (s *script) Close() error                     { return nil }
func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// realHello is the first flight of a crypto/tls client.
func realHello(ctx context.Context, c *tls.Config) []byte {
	conn := &script{in: bytes.NewReader(nil)}
	_ = tls.Client(conn, c).HandshakeContext(ctx) // fails for want of an answer
	return conn.out.Bytes()
}

// asServer is what crypto/tls makes of a first flight; nil if it refuses it.
func asServer(ctx context.Context, in []byte) *tls.ClientHelloInfo {
	var info *tls.ClientHelloInfo
	conn := &script{in: bytes.NewReader(in)}
	_ = tls.Server(conn, &tls.Config{MinVersion: tls.VersionTLS10, GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
		info = i
		return nil, io.EOF
	}}).HandshakeContext(ctx)
	return info
}

func realConfigs() map[string]*tls.Config {
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + ".example.com"
	var protocols []string
	for i := range 50 {
		protocols = append(protocols, fmt.Sprintf("protocol-%03d", i))
	}
	out := map[string]*tls.Config{
		"no name": {InsecureSkipVerify: true}, //nolint:gosec // never connects
		"name":    {ServerName: "www.example.com"},
		"case":    {ServerName: "WWW.Example.Com"},
		"long":    {ServerName: long, NextProtos: []string{"h2", "http/1.1"}},
		"many":    {ServerName: "a.com", NextProtos: protocols},
		"address": {ServerName: "192.0.2.1"},
	}
	for _, v := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		out[tls.VersionName(v)] = &tls.Config{ServerName: "a.com", MinVersion: v, MaxVersion: v, NextProtos: []string{"h2"}}
		out["up to "+tls.VersionName(v)] = &tls.Config{ServerName: "a.com", MinVersion: tls.VersionTLS10, MaxVersion: v}
	}
	for _, c := range []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519MLKEM768} {
		out[c.String()] = &tls.Config{ServerName: "a.com", CurvePreferences: []tls.CurveID{c}, NextProtos: []string{"h2", "http/1.1"}}
	}
	return out
}

// Proves LF-04: on what a real client sends, in any fragmentation, the
// inspector and crypto/tls agree.
func TestRealClientHellos(t *testing.T) {
	large := false
	for name, config := range realConfigs() {
		t.Run(name, func(t *testing.T) {
			in := realHello(t.Context(), config)
			large = large || len(in) > 1400
			info := asServer(t.Context(), in)
			if info == nil {
				t.Fatal("crypto/tls refuses its own ClientHello")
			}
			for _, b := range [][]byte{in, records(in[5:], 1), records(in[5:], 7), records(in[5:], 500)} {
				for _, step := range []int{len(b), 1, 11} {
					h, verdict := feedHello(t, tlsInspector(t, nil), b, step)
					if verdict != Done || h.Outcome != HelloFound {
						t.Fatalf("%v, %+v", verdict, h)
					}
					if err := agree(&h, info); err != nil || h.Size != len(b) {
						t.Errorf("size %d of %d: %v", h.Size, len(b), err)
					}
				}
			}
		})
	}
	if !large {
		t.Error("no ClientHello with a post-quantum key share among them")
	}
}

func agree(h *ClientHello, info *tls.ClientHelloInfo) error {
	if h.SNI != strings.ToLower(info.ServerName) {
		return fmt.Errorf("name %q, crypto/tls %q", h.SNI, info.ServerName)
	}
	if !slices.Equal(h.ALPN, info.SupportedProtos) {
		return fmt.Errorf("protocols %q, crypto/tls %q", h.ALPN, info.SupportedProtos)
	}
	if h.Versions != nil && !slices.Equal(h.Versions, info.SupportedVersions) {
		return fmt.Errorf("versions %x, crypto/tls %x", h.Versions, info.SupportedVersions)
	}
	return nil
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// Proves OV-10 for the ClientHello: no panic, the same result for any split,
// and where crypto/tls accepts the same message, the same content.
func FuzzClientHello(f *testing.F) {
	for _, c := range helloCases() {
		f.Add(c.in, uint16(7))
	}
	for _, c := range realConfigs() {
		f.Add(realHello(f.Context(), c), uint16(100))
	}
	inspector := tlsInspector(f, nil)
	f.Fuzz(func(t *testing.T, in []byte, step uint16) {
		if len(in) == 0 {
			return
		}
		whole, verdict := feedHello(t, inspector, in, len(in))
		split, splitVerdict := feedHello(t, inspector, in, int(step)+1)
		if verdict != splitVerdict || !sameHello(&whole, &split) {
			t.Fatalf("whole %v %+v\nsplit %v %+v", verdict, whole, splitVerdict, split)
		}
		if verdict == NeedMore && len(in) >= MaxClientHello {
			t.Fatalf("undecided after %d bytes", len(in))
		}
		if whole.Outcome != HelloFound || in[0] != recordHandshake {
			return
		}
		if info := asServer(t.Context(), in); info != nil && isASCII(whole.SNI) {
			if err := agree(&whole, info); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func sameHello(a, b *ClientHello) bool {
	return a.Outcome == b.Outcome && a.SNI == b.SNI && slices.Equal(a.ALPN, b.ALPN) && slices.Equal(a.Versions, b.Versions) &&
		a.Version == b.Version && a.Size == b.Size && (a.Err == nil) == (b.Err == nil)
}

// Bytes that arrive one by one are looked at once, not each time anew.
func TestByteByByteIsLinear(t *testing.T) {
	in := records(messageOf(8000), 1)[:MaxClientHello]
	scan := tlsInspector(t, nil).Start()
	allocated := testing.AllocsPerRun(1, func() {
		scan = tlsInspector(t, nil).Start()
		for n := range in {
			before := scan.at
			_, verdict := scan.Inspect(in[:n+1])
			if verdict != NeedMore {
				break
			}
			if scan.at-before > 6 {
				t.Errorf("one byte moved the scan from %d to %d", before, scan.at)
			}
		}
	})
	if allocated > 40 {
		t.Errorf("%v allocations", allocated)
	}
}

func BenchmarkClientHello(b *testing.B) {
	inspector := tlsInspector(b, nil)
	in := realHello(b.Context(), &tls.Config{ServerName: "www.example.com", NextProtos: []string{"h2", "http/1.1"}})
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		scan := inspector.Start()
		if h, _ := scan.Inspect(in); h.SNI == "" {
			b.Fatal(h.Err)
		}
	}
}
