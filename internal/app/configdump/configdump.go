// Package configdump reads the resources out of a saved answer of /config_dump,
// of Envoy or of the proxy (envoy/admin/v3/config_dump.proto).
package configdump

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	_ "github.com/xebec-proxy/xebec/internal/alltypes" // resources may hold any of Envoy's messages
	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/xds"
)

// Resource is one of a dump.
type Resource struct {
	TypeURL, Name, Version string
	// Body is the encoded resource.
	Body []byte
	// Static: it is in the bootstrap, or written out in another resource.
	Static  bool
	warming bool
}

// dumpPrefix is what the types of a dump's parts begin with.
const dumpPrefix = xds.TypePrefix + "envoy.admin.v3."

// Is reports whether a file is a dump.
func Is(data []byte) bool {
	type config struct {
		Type string `json:"@type"`
	}
	var file struct {
		Configs []config `json:"configs"`
	}
	return json.Unmarshal(data, &file) == nil &&
		slices.ContainsFunc(file.Configs, func(c config) bool { return strings.HasPrefix(c.Type, dumpPrefix) })
}

// Read reads the resources of a dump that are in force, or on the way to be if
// none of their name is; those that are draining, and those that were refused, are
// left out. They are sorted by type and name. What can be read is returned even
// with an error, which names the others.
func Read(data []byte) ([]Resource, error) {
	if !Is(data) {
		return nil, errors.New("it is no config dump: save what /config_dump of Envoy or of xebec proxy answers")
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("reading a config dump: %w", err)
	}
	r := &reading{}
	r.walk(tree, place{})
	slices.SortStableFunc(r.found, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name))
	})
	return slices.DeleteFunc(r.found, r.superseded), errors.Join(r.wrong...)
}

// reading is what was found so far.
type reading struct {
	found []Resource
	wrong []error
}

// superseded reports whether a resource is not in force while another of its name
// is.
func (r *reading) superseded(w Resource) bool {
	return w.warming && slices.ContainsFunc(r.found, func(o Resource) bool {
		return !o.warming && o.TypeURL == w.TypeURL && o.Name == w.Name
	})
}

// place is where in a dump something is.
type place struct {
	version         string
	static, warming bool
}

// walk looks for resources: whatever has the type of one.
func (r *reading) walk(tree any, at place) {
	switch tree := tree.(type) {
	case []any:
		for _, e := range tree {
			r.walk(e, at)
		}
	case map[string]any:
		typeURL, _ := tree["@type"].(string)
		if isResource(typeURL) {
			r.resource(typeURL, tree, at)
			return
		}
		if v, ok := tree["version_info"].(string); ok {
			at.version = v
		}
		at.static = at.static || strings.Contains(typeURL, "ConfigDump.Static")
		if typeURL == dumpPrefix+"BootstrapConfigDump" { // static resources have parts of their own
			return
		}
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			if !skipped(key) {
				r.walk(tree[key], at.below(key))
			}
		}
	}
}

// below is the place of a field's value.
func (p place) below(key string) place {
	if strings.HasPrefix(key, "static_") || strings.HasPrefix(key, "inline_") {
		p.static, p.version = true, "" // the version is that of what is discovered
	}
	p.warming = p.warming || strings.Contains(key, "warming")
	return p
}

// skipped reports whether a part of a dump holds what is not in force.
func skipped(key string) bool { return key == "draining_state" || key == "error_state" }

func isResource(typeURL string) bool {
	return slices.ContainsFunc(xds.Types(), func(t xds.Type) bool { return t.URL == typeURL })
}

func (r *reading) resource(typeURL string, tree map[string]any, at place) {
	text, err := json.Marshal(tree)
	if err != nil {
		r.wrong = append(r.wrong, err)
		return
	}
	m, err := message(text)
	if err != nil {
		name := tree["name"]
		if name == nil {
			name = tree["cluster_name"]
		}
		r.wrong = append(r.wrong, fmt.Errorf("%s %q cannot be read: %w", xds.Kind(typeURL), fmt.Sprint(name), err))
		return
	}
	if s, ok := m.(*tlsv3.Secret); ok && s.GetType() == nil {
		return // a place held for one that has not come
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		r.wrong = append(r.wrong, err)
		return
	}
	name, _ := model.Name(m)
	r.found = append(r.found, Resource{TypeURL: typeURL, Name: name, Version: at.version, Body: body, Static: at.static, warming: at.warming})
}

func message(text []byte) (proto.Message, error) {
	var a anypb.Any
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &a); err != nil {
		return nil, err //nolint:wrapcheck // it says where
	}
	return a.UnmarshalNew() //nolint:wrapcheck // it names the type
}
