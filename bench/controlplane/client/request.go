package client

import (
	"bytes"
	"fmt"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// Field numbers of DiscoveryRequest (sotw…) and DeltaDiscoveryRequest (delta…).
const (
	sotwVersion = 1
	sotwNode    = 2
	sotwNames   = 3
	sotwTypeURL = 4
	sotwNonce   = 5

	deltaNode      = 1
	deltaTypeURL   = 2
	deltaSubscribe = 3
	deltaVersions  = 5
	deltaNonce     = 6

	mapKey      = 1
	mapValue    = 2
	nodeID      = 1
	nodeCluster = 2
)

const (
	sotwMethod  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
)

// requests are the encoded parts of every request a client sends; protobuf
// lets a message be put together from its fields in any order.
type requests struct {
	delta bool
	// start is what a connection begins with: preface, settings, headers.
	start, startStuck []byte
	// typeURL is the field of that name by kind, names the list of all names.
	typeURL [resources.Kinds][]byte
	names   []byte
	window  int
}

func newRequests(delta bool, clusters, window int, authority string) requests {
	r := requests{delta: delta, window: window}
	r.start = opening(delta, window, authority)
	r.startStuck = opening(delta, initialWindow, authority)
	urlField, nameField := protowire.Number(sotwTypeURL), protowire.Number(sotwNames)
	if delta {
		urlField, nameField = deltaTypeURL, deltaSubscribe
	}
	for k := range resources.Kinds {
		r.typeURL[k] = appendString(nil, urlField, k.TypeURL())
	}
	for i := range clusters {
		r.names = appendString(r.names, nameField, resources.Name(i))
	}
	return r
}

// opening is the connection preface, the settings, the window and the request
// headers.
func opening(delta bool, window int, authority string) []byte {
	b := []byte(http2.ClientPreface)
	b = appendFrame(b, http2.FrameSettings, 0, 0, 12)
	b = append(b, 0, byte(http2.SettingEnablePush), 0, 0, 0, 0)
	b = append(b, 0, byte(http2.SettingInitialWindowSize), byte(window>>24), byte(window>>16), byte(window>>8), byte(window))
	if window > initialWindow {
		b = appendWindowUpdate(b, 0, window-initialWindow)
	}
	method := sotwMethod
	if delta {
		method = deltaMethod
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: authority},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: "user-agent", Value: "xebec-bench"},
	} {
		_ = e.WriteField(f) // a bytes.Buffer takes everything
	}
	b = appendFrame(b, http2.FrameHeaders, http2.FlagHeadersEndHeaders, streamID, block.Len())
	return append(b, block.Bytes()...)
}

// node is the node field of client i.
func (r *requests) node(i int) []byte {
	n := appendString(nil, nodeID, fmt.Sprintf("node-%d", i))
	n = appendString(n, nodeCluster, "bench")
	if r.delta {
		return appendBytes(nil, deltaNode, n)
	}
	return appendBytes(nil, sotwNode, n)
}

// subscribe is the first request for a kind: clusters by wildcard, assignments
// by name. extra is the node and the versions held, if any.
func (r *requests) subscribe(k resources.Kind, extra ...[]byte) [][]byte {
	parts := append([][]byte{r.typeURL[k]}, extra...)
	if k == resources.EDS {
		parts = append(parts, r.names)
	}
	return parts
}

// acknowledge is the ACK of a response.
func (r *requests) acknowledge(k resources.Kind, version, nonce []byte) [][]byte {
	small := make([]byte, 0, len(r.typeURL[k])+len(version)+len(nonce)+8)
	small = append(small, r.typeURL[k]...)
	if r.delta {
		return [][]byte{appendBytes(small, deltaNonce, nonce)}
	}
	small = appendBytes(small, sotwVersion, version)
	small = appendBytes(small, sotwNonce, nonce)
	if k == resources.EDS {
		return [][]byte{small, r.names}
	}
	return [][]byte{small}
}

// heldVersions is the field initial_resource_versions for all names; versions
// are by index.
func heldVersions(versions []string) []byte {
	var b []byte
	for i, v := range versions {
		entry := appendString(nil, mapKey, resources.Name(i))
		entry = appendString(entry, mapValue, v)
		b = appendBytes(b, deltaVersions, entry)
	}
	return b
}

func appendString(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}
