package routedecode

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

func encode(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func named(name string) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: name, Domains: []string{name + ".example"}}
}

// Whatever versions come one after the other: what is decoded is what protobuf
// decodes, what has stayed is the same message, and no version that was decoded
// changes.
func TestDecodeAsProtobuf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &Decoder{}
		var before *routev3.RouteConfiguration
		var beforeBody []byte
		for range rapid.IntRange(1, 6).Draw(t, "versions") {
			rc := &routev3.RouteConfiguration{Name: rapid.SampledFrom([]string{"", "r"}).Draw(t, "name")}
			if rapid.Bool().Draw(t, "check") {
				rc.ValidateClusters = wrapperspb.Bool(true)
			}
			for _, h := range rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e"}), 0, 6).Draw(t, "hosts") {
				rc.VirtualHosts = append(rc.VirtualHosts, named(h))
			}
			if rapid.Bool().Draw(t, "unknown") {
				rc.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1))
			}
			body, err := proto.Marshal(rc)
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "apart") { // fields need not be together
				more := &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{named("z")}, InternalOnlyHeaders: []string{"x"}}
				b, _ := proto.Marshal(more)
				body = append(body, b...)
			}
			want := &routev3.RouteConfiguration{}
			if err := proto.Unmarshal(body, want); err != nil {
				t.Fatal(err)
			}
			got, err := d.Decode(body)
			if err != nil || !proto.Equal(got, want) {
				t.Fatalf("%v, %v, want %v", got, err, want)
			}
			if before != nil {
				stayed(t, before, got)
				again := &routev3.RouteConfiguration{}
				if err := proto.Unmarshal(beforeBody, again); err != nil || !proto.Equal(before, again) {
					t.Fatalf("the version before has become %v", before)
				}
			}
			before, beforeBody = got, bytes.Clone(body)
			clear(body) // it is not kept
		}
	})
}

// stayed fails if a host that is alone of its content was decoded again.
func stayed(t *rapid.T, before, now *routev3.RouteConfiguration) {
	was := map[string][]*routev3.VirtualHost{}
	for _, h := range before.GetVirtualHosts() {
		was[h.GetName()] = append(was[h.GetName()], h)
	}
	for _, h := range now.GetVirtualHosts() {
		if list := was[h.GetName()]; len(list) == 1 && list[0] != h {
			again := 0
			for _, o := range now.GetVirtualHosts() {
				if o.GetName() == h.GetName() {
					again++
				}
			}
			if again == 1 {
				t.Fatalf("%q was decoded again", h.GetName())
			}
		}
	}
}

// What cannot be decoded is an error, and what comes afterwards can.
func TestDecodeErrors(t *testing.T) {
	rc := &routev3.RouteConfiguration{Name: "r", VirtualHosts: []*routev3.VirtualHost{named("a"), named("b")}}
	good := encode(t, rc)
	d := &Decoder{}
	if _, err := d.Decode(good); err != nil {
		t.Fatal(err)
	}
	broken := bytes.Replace(good, []byte("b.example"), []byte("b\xff\xff\xff\xff\xff\xff\xff\xff"), 1)
	for _, body := range [][]byte{good[:len(good)-1], broken, {0xff}, {1<<3 | 2, 1, 0xff}, {0}} {
		if _, err := d.Decode(body); err == nil {
			t.Errorf("%q is decoded", body)
		}
		if err := proto.Unmarshal(body, &routev3.RouteConfiguration{}); err == nil {
			t.Errorf("protobuf decodes %q", body)
		}
	}
	empty := encode(t, &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{}, {}}})
	if rc, err := d.Decode(empty); err != nil || rc.GetVirtualHosts()[1] == nil {
		t.Errorf("of empty hosts: %v, %v", rc, err)
	}
	first, _ := d.Decode(good)
	_, _ = d.Decode(broken)
	if again, err := d.Decode(good); err != nil || again.GetVirtualHosts()[0] != first.GetVirtualHosts()[0] {
		t.Errorf("after errors: %v, %v", again, err)
	}
	refusal := errors.New("no")
	d.Decoded = func(proto.Message, []byte) error { return refusal }
	if _, err := d.Decode(good); !errors.Is(err, refusal) {
		t.Errorf("%v, want %v", err, refusal)
	}
}

// Only what is new is shown to who looks at it.
func TestDecodedIsCalledForWhatIsNew(t *testing.T) {
	var seen []string
	d := &Decoder{Decoded: func(m proto.Message, body []byte) error {
		seen = append(seen, fmt.Sprint(m.ProtoReflect().Descriptor().Name(), " ", proto.Size(m) == len(body)))
		return nil
	}}
	rc := &routev3.RouteConfiguration{Name: "r", VirtualHosts: []*routev3.VirtualHost{named("a"), named("b")}}
	for i, want := range []string{
		"[RouteConfiguration true VirtualHost true VirtualHost true]", "[RouteConfiguration true]", "[RouteConfiguration true VirtualHost true]",
	} {
		if i == 2 {
			rc.VirtualHosts[0] = named("c")
		}
		seen = nil
		if _, err := d.Decode(encode(t, rc)); err != nil || fmt.Sprint(seen) != want {
			t.Errorf("%v, %v, want %s", seen, err, want)
		}
	}
}

// Work grows with what changed: of thousands of virtual hosts one that has changed is
// decoded alone.
func TestCost(t *testing.T) {
	const n = 2000
	rc := &routev3.RouteConfiguration{Name: "r"}
	for i := range n {
		rc.VirtualHosts = append(rc.VirtualHosts, named(fmt.Sprint("h", i)))
	}
	d, i := &Decoder{}, 0
	var bodies [2][]byte
	for i := range bodies {
		rc.VirtualHosts[7] = named(fmt.Sprint("x", i))
		bodies[i] = encode(t, rc)
	}
	if _, err := d.Decode(bodies[0]); err != nil {
		t.Fatal(err)
	}
	allocs := testing.AllocsPerRun(10, func() {
		i++
		if _, err := d.Decode(bodies[i%2]); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 60 {
		t.Errorf("a change of one of %d virtual hosts allocates %v times", n, allocs)
	}
}

// FuzzDecode looks for what is decoded otherwise than by protobuf.
func FuzzDecode(f *testing.F) {
	rc := &routev3.RouteConfiguration{Name: "r", VirtualHosts: []*routev3.VirtualHost{named("a"), named("b")}}
	one := encode(f, rc)
	rc.VirtualHosts[1] = named("c")
	f.Add(one, encode(f, rc))
	f.Add(one, append(encode(f, rc), 0x9b, 0x06, 0x9c, 0x06)) // a group
	f.Fuzz(func(t *testing.T, first, second []byte) {
		d := &Decoder{}
		for _, body := range [][]byte{first, second, first} {
			got, err := d.Decode(body)
			want := &routev3.RouteConfiguration{}
			wrong := proto.Unmarshal(body, want)
			if (err == nil) != (wrong == nil) {
				t.Fatalf("%v, protobuf: %v", err, wrong)
			}
			if err == nil && !bytes.Equal(encode(t, got), encode(t, want)) {
				t.Fatalf("%v, protobuf: %v", got, want)
			}
		}
	})
}
