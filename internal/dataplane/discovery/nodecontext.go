package discovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

const (
	userAgent  = "xebec" // what the node says of this program
	nodePrefix = "xds.node."
)

// nodeParams are the context parameters that node_context_params of the bootstrap
// makes of the node (XN-13): the field's name with "xds.node." before it. Values are as
// Envoy writes them: texts as they are, also if they are empty, and each field of the
// metadata as JSON. The error names the element that is wrong.
func (d *Discovery) nodeParams() (map[string]string, error) {
	out := map[string]string{}
	for i, f := range d.cfg.Bootstrap.GetNodeContextParams() {
		if err := d.nodeParam(out, f); err != nil {
			return nil, fmt.Errorf("node_context_params[%d]: %w", i, err)
		}
	}
	return out, nil
}

// withNode are the context parameters of a collection with those of the node. Those
// that the locator has itself win.
func (d *Discovery) withNode(own map[string]string) map[string]string {
	out := maps.Clone(d.nodeContext)
	maps.Copy(out, own)
	return out
}

func (d *Discovery) nodeParam(out map[string]string, field string) error {
	n := d.cfg.Bootstrap.GetNode()
	value := ""
	switch field {
	case "id":
		value = n.GetId()
	case "cluster":
		value = n.GetCluster()
	case "user_agent_name":
		value = userAgent
	case "user_agent_version":
		value = d.cfg.Version
	case "locality.region":
		value = n.GetLocality().GetRegion()
	case "locality.zone":
		value = n.GetLocality().GetZone()
	case "locality.sub_zone":
		value = n.GetLocality().GetSubZone()
	case "metadata":
		return metadataParams(out, nodePrefix+"metadata.", n.GetMetadata())
	case "user_agent_build_version.version", "user_agent_build_version.metadata":
		return fmt.Errorf("%q is known but not built: the node has no user_agent_build_version; write user_agent_version", field)
	default:
		return fmt.Errorf("%q is no field that can be a parameter; there are id, cluster, metadata, locality.region, locality.zone, "+
			"locality.sub_zone, user_agent_name and user_agent_version", field)
	}
	out[nodePrefix+field] = value
	return nil
}

func metadataParams(out map[string]string, prefix string, m *structpb.Struct) error {
	for name, v := range m.GetFields() {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false) // of these Envoy escapes two
		if err := e.Encode(v.AsInterface()); err != nil {
			return fmt.Errorf("metadata %q: %w", name, err)
		}
		out[prefix+name] = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "\n", "").Replace(b.String()) // inside texts, but for the end
	}
	return nil
}
