package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// fieldLog notes what a messageReader reads.
type fieldLog struct{ lines []string }

func (l *fieldLog) field(n protowire.Number, v []byte) error {
	l.lines = append(l.lines, fmt.Sprintf("%d %q", n, v))
	return nil
}

func (l *fieldLog) endOfMessage() error {
	l.lines = append(l.lines, "end")
	return nil
}

// grpcMessage is a message as gRPC sends it.
func grpcMessage(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

func responses(t testing.TB) []byte {
	t.Helper()
	var out []byte
	for _, m := range []*discoveryv3.DiscoveryResponse{
		{VersionInfo: "v1", TypeUrl: "t", Nonce: "n1", Canary: true, Resources: []*anypb.Any{
			{TypeUrl: "a", Value: bytes.Repeat([]byte("x"), 300)}, {TypeUrl: "b"},
		}},
		{},
		{Nonce: "n2"},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, grpcMessage(b)...)
	}
	return out
}

func read(pieces ...[]byte) ([]string, error) {
	var r messageReader
	var l fieldLog
	for _, p := range pieces {
		if err := r.feed(p, &l); err != nil {
			return l.lines, err
		}
	}
	return l.lines, nil
}

func TestMessagesAreTheSameHoweverTheyArrive(t *testing.T) {
	all := responses(t)
	whole, err := read(all)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(whole); n != 9 || whole[n-2] != `5 "n2"` || whole[0] != `1 "v1"` {
		t.Fatalf("read %q", whole)
	}
	for i := range all {
		if got, err := read(all[:i], all[i:]); err != nil || !cmp.Equal(got, whole) {
			t.Fatalf("cut at %d: %v\n%s", i, err, cmp.Diff(whole, got))
		}
	}
	var bytewise [][]byte
	for i := range all {
		bytewise = append(bytewise, all[i:i+1])
	}
	if got, err := read(bytewise...); err != nil || !cmp.Equal(got, whole) {
		t.Fatalf("byte by byte: %v\n%s", err, cmp.Diff(whole, got))
	}
}

func TestMalformedMessagesAreErrors(t *testing.T) {
	compressed := grpcMessage([]byte{10, 1, 'a'})
	compressed[0] = 1
	for name, c := range map[string]struct {
		in   []byte
		want error
	}{
		"compressed":                   {compressed, errCompressed},
		"field beyond the message":     {append(grpcMessage([]byte{10, 9, 'a'}), "bbbbbbbbbb"...), errTruncated},
		"field that ends in its tag":   {grpcMessage([]byte{10}), errTruncated},
		"length beyond any message":    {grpcMessage([]byte{10, 0xff, 0xff, 0xff, 0xff, 0x7f}), errTruncated},
		"field number 0":               {grpcMessage([]byte{2, 1, 'a'}), nil},
		"group":                        {grpcMessage([]byte{11, 12}), nil},
		"varint of more than 10 bytes": {grpcMessage(bytes.Repeat([]byte{0xff}, 20)), nil},
	} {
		for _, pieces := range [][][]byte{{c.in}, {c.in[:6], c.in[6:]}} {
			_, err := read(pieces...)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s in %d pieces: %v, want %v", name, len(pieces), err, c.want)
			}
		}
	}
}

func FuzzMessagesAreTheSameHoweverTheyArrive(f *testing.F) {
	f.Add(responses(f), uint16(7))
	f.Add([]byte{0, 0, 0, 0, 2, 10, 9}, uint16(6))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		i := min(int(at), len(b))
		whole, err1 := read(b)
		cut, err2 := read(b[:i], b[i:])
		if (err1 == nil) != (err2 == nil) || err1 == nil && !cmp.Equal(whole, cut) {
			t.Fatalf("whole %q %v, cut at %d %q %v", whole, err1, i, cut, err2)
		}
	})
}
