package chainmatch

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"

	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/matchtree"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

type treeInput = matchtree.Input[*Input]

func text(f func(in *Input) (string, bool)) treeInput { return treeInput{Text: f} }

// treeInputOf knows what a tree may look at before a chain is chosen
// (envoy/extensions/matching/common_inputs/network/v3/network_inputs.proto).
func treeInputOf(cfg proto.Message) (in treeInput, known bool, err error) {
	switch m := cfg.(type) {
	case *networkv3.DestinationIPInput:
		return text(func(in *Input) (string, bool) { return ipText(in.DestIP) }), true, nil
	case *networkv3.DestinationPortInput:
		return text(func(in *Input) (string, bool) { return portOf(in.DestIP, in.DestPort) }), true, nil
	case *networkv3.SourceIPInput:
		return text(func(in *Input) (string, bool) { return ipText(in.Source) }), true, nil
	case *networkv3.SourcePortInput:
		return text(func(in *Input) (string, bool) { return portOf(in.Source, in.SourcePort) }), true, nil
	case *networkv3.DirectSourceIPInput:
		return text(func(in *Input) (string, bool) { return ipText(in.DirectSource) }), true, nil
	case *networkv3.SourceTypeInput:
		return text(func(in *Input) (string, bool) { return "local", isLocal(in) }), true, nil
	case *networkv3.ServerNameInput:
		return text(func(in *Input) (string, bool) { return in.SNI, in.SNI != "" }), true, nil
	case *networkv3.TransportProtocolInput:
		return text(func(in *Input) (string, bool) { return in.Transport, in.Transport != "" }), true, nil
	case *networkv3.ApplicationProtocolInput:
		return text(func(in *Input) (string, bool) { return protocols(in.ALPN) }), true, nil
	case *networkv3.FilterStateInput:
		in, err = stateInput(m)
		return in, true, err
	case *networkv3.DynamicMetadataInput:
		in, err = metadataInput(m)
		return in, true, err
	}
	return treeInput{}, false, nil
}

func ipText(a netip.Addr) (string, bool) {
	if !a.IsValid() {
		return "", false
	}
	return a.String(), true
}

func portOf(a netip.Addr, port uint16) (string, bool) {
	if !a.IsValid() {
		return "", false
	}
	return strconv.Itoa(int(port)), true
}

// protocols lists what the client offers as Envoy's input does: 'h2','http/1.1'.
func protocols(list []string) (string, bool) {
	if len(list) == 0 {
		return "", false
	}
	return "'" + strings.Join(list, "','") + "'", true
}

func stateInput(m *networkv3.FilterStateInput) (treeInput, error) {
	key, field := m.GetKey(), m.GetField()
	if key == "" {
		return treeInput{}, errors.New("key: the text is empty")
	}
	return text(func(in *Input) (string, bool) {
		if in.Stream == nil {
			return "", false
		}
		v, ok := in.Stream.State[key]
		if !ok {
			return "", false
		}
		return format.StateText(v, field)
	}), nil
}

func metadataInput(m *networkv3.DynamicMetadataInput) (treeInput, error) {
	var keys []string
	for _, s := range m.GetPath() {
		keys = append(keys, s.GetKey())
	}
	switch {
	case m.GetFilter() == "":
		return treeInput{}, errors.New("filter: the text is empty")
	case len(keys) == 0:
		return treeInput{}, errors.New("path: the list is empty")
	}
	return treeInput{Metadata: func(in *Input) (*structpb.Value, bool) {
		if in.Stream == nil {
			return nil, false
		}
		v := route.MetadataValue(in.Stream.Metadata[m.GetFilter()], keys)
		return v, v != nil
	}}, nil
}
