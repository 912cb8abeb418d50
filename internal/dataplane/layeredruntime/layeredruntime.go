// Package layeredruntime answers for runtime keys: switches and numbers that
// override what the configuration says, by the static layers of the bootstrap's
// layered_runtime (BS-36, BS-37).
package layeredruntime

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/internal/fraction"
)

// Snapshot is the value of each key, later layers over earlier ones. It is
// immutable and safe for concurrent use; a nil Snapshot has no keys.
type Snapshot struct {
	values map[string]*structpb.Value
	layers []layer
	admin  int // index of the admin layer; -1 without one
}

// layer is one layer, flattened.
type layer struct {
	name   string
	values map[string]*structpb.Value
}

// New reads the layers of a bootstrap. Layers of other kinds than static begin
// empty. An error names the layer that is wrong, in Envoy's words.
func New(r *bootstrapv3.LayeredRuntime) (*Snapshot, error) {
	s := &Snapshot{admin: -1}
	seen := map[string]bool{}
	for i, l := range r.GetLayers() {
		if seen[l.GetName()] {
			return nil, fmt.Errorf("Duplicate layer name: %s", l.GetName()) //nolint:staticcheck // Envoy's text
		}
		seen[l.GetName()] = true
		if l.GetAdminLayer() != nil {
			if s.admin >= 0 {
				return nil, fmt.Errorf("Too many admin layers specified in LayeredRuntime, at most one may be specified") //nolint:staticcheck // Envoy's text
			}
			s.admin = len(s.layers)
		}
		flat := layer{l.GetName(), map[string]*structpb.Value{}}
		if err := flat.add("", l.GetStaticLayer()); err != nil {
			return nil, fmt.Errorf("layers[%d].static_layer: %w", i, err)
		}
		s.layers = append(s.layers, flat)
	}
	s.merge()
	return s, nil
}

// With is a snapshot with other values in the layer of an index (BS-38); nil
// values empty it.
func (s *Snapshot) With(index int, values *structpb.Struct) (*Snapshot, error) {
	flat := layer{s.layers[index].name, map[string]*structpb.Value{}}
	if err := flat.add("", values); err != nil {
		return nil, err
	}
	c := &Snapshot{layers: slices.Clone(s.layers), admin: s.admin}
	c.layers[index] = flat
	c.merge()
	return c, nil
}

// merge makes the values of all layers together.
func (s *Snapshot) merge() {
	s.values = map[string]*structpb.Value{}
	for i := range s.layers {
		maps.Copy(s.values, s.layers[i].values)
	}
}

// add flattens a layer: nested mappings make keys with dots, but for fractions.
func (l *layer) add(prefix string, values *structpb.Struct) error {
	for _, k := range slices.Sorted(maps.Keys(values.GetFields())) {
		v, key := values.GetFields()[k], k
		if prefix != "" {
			key = prefix + "." + k
		}
		if inner := v.GetStructValue(); inner != nil && !isFraction(inner) {
			if err := l.add(key, inner); err != nil {
				return err
			}
			continue
		}
		switch v.GetKind().(type) {
		case nil, *structpb.Value_NullValue, *structpb.Value_ListValue:
			return fmt.Errorf("Invalid runtime entry value for %s", key) //nolint:staticcheck // Envoy's text
		}
		l.values[key] = v
	}
	return nil
}

func isFraction(v *structpb.Struct) bool {
	_, numerator := v.GetFields()["numerator"]
	_, denominator := v.GetFields()["denominator"]
	return numerator || denominator
}

// HasAdminLayer reports whether keys may be changed while the proxy runs.
func (s *Snapshot) HasAdminLayer() bool { return s != nil && s.admin >= 0 }

// Layers lists the names of the layers, the first with the least say.
func (s *Snapshot) Layers() []string {
	if s == nil {
		return nil
	}
	names := make([]string, len(s.layers))
	for i := range s.layers {
		names[i] = s.layers[i].name
	}
	return names
}

// Get is the value of a key as it was written; nil if there is none. Read-only.
func (s *Snapshot) Get(key string) *structpb.Value {
	if s == nil || key == "" {
		return nil
	}
	return s.values[key]
}

// Bool is a switch. ok is false if the key is not set, or is no boolean.
func (s *Snapshot) Bool(key string) (value, ok bool) {
	switch v := s.Get(key).GetKind().(type) {
	case *structpb.Value_BoolValue:
		return v.BoolValue, true
	case *structpb.Value_StringValue:
		b, err := strconv.ParseBool(v.StringValue)
		return b, err == nil && (v.StringValue == "true" || v.StringValue == "false")
	}
	return false, false
}

// Double is a number, or fallback if the key has none.
func (s *Snapshot) Double(key string, fallback float64) float64 {
	switch v := s.Get(key).GetKind().(type) {
	case *structpb.Value_NumberValue:
		return v.NumberValue
	case *structpb.Value_StringValue:
		if f, err := strconv.ParseFloat(v.StringValue, 64); err == nil {
			return f
		}
	}
	return fallback
}

// Integer is a whole number that is not negative, or fallback if the key has
// none.
func (s *Snapshot) Integer(key string, fallback uint64) uint64 {
	f := s.Double(key, -1)
	if f < 0 || f >= math.MaxUint64 || f != math.Trunc(f) {
		return fallback
	}
	return uint64(f)
}

// Fraction is the share that a configured fraction has now: numerator out of
// denominator. A key with a whole number from 0 is a percentage. Without a
// configuration it is the whole.
func (s *Snapshot) Fraction(f *corev3.RuntimeFractionalPercent) (numerator, denominator uint64) {
	if f == nil {
		return 1, 1
	}
	return s.Percentage(f.GetRuntimeKey(), f.GetDefaultValue())
}

// Percentage is the fraction of a key, or the default given.
func (s *Snapshot) Percentage(key string, fallback *typev3.FractionalPercent) (numerator, denominator uint64) {
	v := s.Get(key)
	if inner := v.GetStructValue(); inner != nil {
		if n, d, ok := written(inner); ok {
			return n, d
		}
		return fraction.Of(fallback)
	}
	if n := s.Integer(key, math.MaxUint64); n != math.MaxUint64 {
		return n, 100
	}
	return fraction.Of(fallback)
}

// written reads {numerator: N, denominator: HUNDRED}.
func written(v *structpb.Struct) (numerator, denominator uint64, ok bool) {
	denominator = 100
	if d, set := v.GetFields()["denominator"]; set {
		number, known := typev3.FractionalPercent_DenominatorType_value[d.GetStringValue()]
		if !known {
			return 0, 0, false
		}
		denominator = fraction.Parts(typev3.FractionalPercent_DenominatorType(number))
	}
	n, set := v.GetFields()["numerator"]
	f := n.GetNumberValue()
	if _, number := n.GetKind().(*structpb.Value_NumberValue); set && (!number || f < 0 || f > math.MaxUint32 || f != math.Trunc(f)) {
		return 0, 0, false
	}
	return uint64(f), denominator, true
}
