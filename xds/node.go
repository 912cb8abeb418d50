package xds

import (
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"
)

// Client features a node may announce (XS-81).
const (
	FeatureRequireAnyStruct    = "envoy.config.require-any-fields-contain-struct"
	FeatureNoOverprovisioning  = "envoy.lb.does_not_support_overprovisioning"
	FeatureSendAllClusters     = "envoy.lrs.supports_send_all_clusters"
	FeatureResourceTTL         = "xds.config.supports-resource-ttl"
	FeatureResourceInSotw      = "xds.config.resource-in-sotw"
	featureResourceInSotwAlias = "xds.config.supports-resource-in-sotw"
)

// Node identifies a client. It is read-only once handed out.
type Node struct {
	ID, Cluster           string
	Region, Zone, SubZone string
	Metadata              *structpb.Struct
	UserAgent, Version    string
	// BuildVersion is what nodes of v2 say instead, such as
	// "84f1c8d/1.12.2/Clean/RELEASE/BoringSSL" (XV-07).
	BuildVersion string `json:",omitempty"`
	Features     []string
	// DynamicParameters holds the key-value pairs per type URL.
	DynamicParameters map[string]map[string]string
}

// GroupFunc maps a node to the name of the group whose resources it gets
// (XS-36). It is called concurrently, must not keep the node and must not call
// the server that uses it.
type GroupFunc func(*Node) string

// NodeFromProto converts the protocol's node; nil gives the empty node. It
// shares the metadata with its argument.
func NodeFromProto(p *corev3.Node) *Node {
	n := &Node{
		ID: p.GetId(), Cluster: p.GetCluster(),
		Region: p.GetLocality().GetRegion(), Zone: p.GetLocality().GetZone(), SubZone: p.GetLocality().GetSubZone(),
		Metadata: p.GetMetadata(), UserAgent: p.GetUserAgentName(), Version: userAgentVersion(p),
		Features: p.GetClientFeatures(), BuildVersion: buildVersion(p),
	}
	for t, ps := range p.GetDynamicParameters() {
		if n.DynamicParameters == nil {
			n.DynamicParameters = map[string]map[string]string{}
		}
		n.DynamicParameters[t] = ps.GetParams()
	}
	return n
}

func userAgentVersion(p *corev3.Node) string {
	if v := p.GetUserAgentBuildVersion().GetVersion(); v != nil {
		return dotted(v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	}
	return p.GetUserAgentVersion()
}

// buildVersion is field 5 of a node of v2, which v3 does not know.
func buildVersion(p *corev3.Node) string {
	if p == nil {
		return ""
	}
	const field = 5
	version := ""
	for b := p.ProtoReflect().GetUnknown(); len(b) > 0; {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			break
		}
		if num == field && typ == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(b)
			if v, _ := protowire.ConsumeBytes(b[tag:]); utf8.Valid(v) {
				version = string(v)
			}
		}
		b = b[n:]
	}
	return version
}

// Supports reports whether the node announced a client feature; both
// spellings of the resource-in-SotW feature count (XS-81).
func (n *Node) Supports(feature string) bool {
	for _, f := range n.Features {
		if f == feature || feature == FeatureResourceInSotw && f == featureResourceInSotwAlias {
			return true
		}
	}
	return false
}

// Empty reports whether the client said nothing that could identify it.
func (n *Node) Empty() bool { return n == nil || n.ID == "" && n.Cluster == "" && n.Metadata == nil }
