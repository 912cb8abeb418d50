package layeredruntime

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// ErrNoAdminLayer says that keys cannot be changed while the proxy runs.
var ErrNoAdminLayer = errors.New("No admin layer specified") //nolint:staticcheck // Envoy's text

// Override returns a snapshot with keys of the admin layer set, or taken out
// where the value is empty (AD-12). The receiver stays as it is. Without an
// admin layer the error is ErrNoAdminLayer.
func (s *Snapshot) Override(values map[string]string) (*Snapshot, error) {
	if !s.HasAdminLayer() {
		return nil, ErrNoAdminLayer
	}
	c := &Snapshot{layers: slices.Clone(s.layers), admin: s.admin}
	over := &c.layers[c.admin]
	over.values = maps.Clone(over.values)
	for key, value := range values {
		if value == "" {
			delete(over.values, key)
			continue
		}
		over.values[key] = structpb.NewStringValue(value)
	}
	c.merge()
	return c, nil
}

// Overridden reports whether the admin layer has keys.
func (s *Snapshot) Overridden() bool { return s.HasAdminLayer() && len(s.layers[s.admin].values) > 0 }

// Entry is a key and what the layers say of it.
type Entry struct {
	Key string
	// Final is the value in force; Layers are those of the layers in their order,
	// empty where a layer has none.
	Final  string
	Layers []string
}

// Entries lists all keys, sorted.
func (s *Snapshot) Entries() []Entry {
	if s == nil {
		return nil
	}
	out := make([]Entry, 0, len(s.values))
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		e := Entry{Key: key, Final: text(s.values[key])}
		for i := range s.layers {
			e.Layers = append(e.Layers, text(s.layers[i].values[key]))
		}
		out = append(out, e)
	}
	return out
}

// text is a value as /runtime shows it; a fraction is JSON.
func text(v *structpb.Value) string {
	switch k := v.GetKind().(type) {
	case nil:
		return ""
	case *structpb.Value_StringValue:
		return k.StringValue
	case *structpb.Value_NumberValue:
		return strconv.FormatFloat(k.NumberValue, 'g', -1, 64)
	case *structpb.Value_BoolValue:
		return strconv.FormatBool(k.BoolValue)
	}
	b, err := protojson.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}
