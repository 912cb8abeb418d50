package xdsserver_test

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// fields is a request of either variant as protobuf's own decoder has it.
type fields struct {
	node                    *corev3.Node
	typeURL, version, nonce string
	names, subscribe, unsub []string
	initial                 map[string]string
	err                     *statuspb.Status
	parameters              bool
}

func reference(delta bool, data []byte) (*fields, error) {
	if delta {
		var m discoveryv3.DeltaDiscoveryRequest
		if err := proto.Unmarshal(data, &m); err != nil {
			return nil, err
		}
		f := &fields{
			node: m.GetNode(), typeURL: m.GetTypeUrl(), nonce: m.GetResponseNonce(), initial: m.GetInitialResourceVersions(), err: m.GetErrorDetail(),
			subscribe: m.GetResourceNamesSubscribe(), unsub: m.GetResourceNamesUnsubscribe(),
		}
		f.locators(m.GetResourceLocatorsSubscribe(), &f.subscribe)
		f.locators(m.GetResourceLocatorsUnsubscribe(), &f.unsub)
		return f, nil
	}
	var m discoveryv3.DiscoveryRequest
	if err := proto.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	f := &fields{
		node: m.GetNode(), typeURL: m.GetTypeUrl(), version: m.GetVersionInfo(), nonce: m.GetResponseNonce(), err: m.GetErrorDetail(),
		names: m.GetResourceNames(),
	}
	f.locators(m.GetResourceLocators(), &f.names)
	return f, nil
}

func (f *fields) locators(list []*discoveryv3.ResourceLocator, to *[]string) {
	for _, l := range list {
		*to = append(*to, l.GetName())
		f.parameters = f.parameters || len(l.GetDynamicParameters()) > 0
	}
}

// FuzzDecode compares the decoder with protobuf's: it takes the same inputs
// and reads the same from them.
func FuzzDecode(f *testing.F) {
	for _, m := range seeds() {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		_, delta := m.(*discoveryv3.DeltaDiscoveryRequest)
		f.Add(delta, data)
		f.Add(!delta, data)
		f.Add(delta, append(slices.Clone(data), data...))
		f.Add(delta, data[:len(data)*2/3])
	}
	f.Add(false, []byte("\x1a\x01\xff"))
	f.Add(true, []byte("\x0b\x0c"))
	f.Add(true, []byte("\xfa\xff\xff\xff\x7f\x00"))
	f.Fuzz(func(t *testing.T, delta bool, data []byte) { checkDecode(t, delta, data) })
}

func seeds() []proto.Message {
	node := &corev3.Node{Id: "n", Cluster: "c", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewNumberValue(1)}}}
	bad := &statuspb.Status{Code: 3, Message: strings.Repeat("é", 5000), Details: []*anypb.Any{{TypeUrl: "t", Value: []byte("v")}}}
	locators := []*discoveryv3.ResourceLocator{{Name: "l"}, {Name: "p", DynamicParameters: map[string]string{"a": "b"}}}
	return []proto.Message{
		&discoveryv3.DiscoveryRequest{},
		&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: "t", VersionInfo: "v", ResponseNonce: "n", ResourceNames: []string{"a", "", "b"}},
		&discoveryv3.DiscoveryRequest{TypeUrl: "t", ErrorDetail: bad, ResourceLocators: locators[:1]},
		&discoveryv3.DiscoveryRequest{ResourceLocators: locators},
		&discoveryv3.DeltaDiscoveryRequest{
			Node: node, TypeUrl: "t", ResponseNonce: "n", ResourceNamesSubscribe: []string{"a", "b"}, ResourceNamesUnsubscribe: []string{"c"},
			InitialResourceVersions: map[string]string{"a": "1", "b": ""}, ErrorDetail: bad,
		},
		&discoveryv3.DeltaDiscoveryRequest{ResourceLocatorsSubscribe: locators[:1], ResourceLocatorsUnsubscribe: locators[1:]},
	}
}

func checkDecode(t *testing.T, delta bool, data []byte) {
	variant := wire.Sotw
	if delta {
		variant = wire.Delta
	}
	want, wantErr := reference(delta, data)
	got, err := xdsserver.Decode(variant, string(data))
	if xdsserver.ErrLocators(err) && (wantErr != nil || want.parameters) {
		return // which of two faults is found first does not matter
	}
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("error %v, protobuf says %v", err, wantErr)
	}
	if err != nil {
		return
	}
	if want.parameters {
		t.Fatal("locators with parameters were taken")
	}
	if !proto.Equal(got.Node, want.node) {
		t.Errorf("node %v, want %v", got.Node, want.node)
	}
	expect := wire.Request{TypeURL: want.typeURL, Version: want.version, Nonce: want.nonce, Names: want.names, Subscribe: want.subscribe, Unsubscribe: want.unsub, Initial: want.initial}
	if want.err != nil {
		const most = 4 << 10
		msg := want.err.GetMessage()
		for len(msg) > most || strings.ToValidUTF8(msg, "") != msg {
			msg = msg[:min(len(msg)-1, most)]
		}
		expect.Error = &wire.Status{Code: wire.Code(want.err.GetCode()), Message: msg}
	}
	r := got.Request
	r.Digest = 0
	for _, l := range [][]string{r.Names, r.Subscribe, r.Unsubscribe, expect.Names, expect.Subscribe, expect.Unsubscribe} {
		slices.Sort(l) // names and locators may come in any order
	}
	if d := cmp.Diff(expect, r, cmp.Transformer("nilIsEmpty", func(l []string) string { return strings.Join(l, "\x00") }), cmp.Transformer("size", sortedMap)); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
}

func sortedMap(m map[string]string) string {
	var list []string
	for k, v := range m {
		list = append(list, k+"\x00"+v)
	}
	slices.Sort(list)
	return strings.Join(list, "\x01")
}

// Two lists of names have one digest exactly if they are equal, locators
// counted as names.
func TestDigestFollowsNames(t *testing.T) {
	digest := func(names, locators []string) uint64 {
		m := &discoveryv3.DiscoveryRequest{ResourceNames: names}
		for _, l := range locators {
			m.ResourceLocators = append(m.ResourceLocators, &discoveryv3.ResourceLocator{Name: l})
		}
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		r, err := xdsserver.Decode(wire.Sotw, string(data))
		if err != nil || r.Digest == 0 {
			t.Fatalf("digest %d, %v", r.Digest, err)
		}
		return r.Digest
	}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "ab", "ba"}), 0, 4)
		n1, l1, n2, l2 := list.Draw(t, "n1"), list.Draw(t, "l1"), list.Draw(t, "n2"), list.Draw(t, "l2")
		same := slices.Equal(slices.Concat(n1, l1), slices.Concat(n2, l2))
		if (digest(n1, l1) == digest(n2, l2)) != same {
			t.Errorf("%q+%q and %q+%q: equal lists %t, equal digests %t", n1, l1, n2, l2, same, !same)
		}
	})
}

// A request may come in one buffer, in several or in none.
func TestRequestsInPieces(t *testing.T) {
	for _, pieces := range [][]string{{}, {""}, {"abc"}, {"a", "bc"}, {"", "abc", "", "d"}} {
		var raw [][]byte
		for _, p := range pieces {
			raw = append(raw, []byte(p))
		}
		got, err := xdsserver.Receive(raw...)
		if want := strings.Join(pieces, ""); err != nil || got != want {
			t.Errorf("%q: %q, %v", pieces, got, err)
		}
		for _, r := range raw {
			clear(r) // buffers are used again
		}
		if want := strings.Join(pieces, ""); got != want {
			t.Errorf("%q: %q after the buffers were used again", pieces, got)
		}
	}
}
