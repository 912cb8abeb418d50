package configload_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/xds"
)

// TestFormsAgree writes random resources in each format with the protobuf
// library and expects to load the same message from all of them.
//
// Partly proves BS-01 and XF-01: the format makes no difference.
func TestFormsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(xds.Types()).Draw(t, "type")
		mt, err := protoregistry.GlobalTypes.FindMessageByURL(typ.URL)
		if err != nil {
			t.Fatal(err)
		}
		m := mt.New()
		g := generator{t: t, budget: 60}
		g.fill(m, 0)
		body, err := anypb.New(m.Interface())
		if err != nil {
			t.Fatal(err)
		}
		wrapped, err := anypb.New(&discoveryv3.Resource{Name: "n", Resource: body})
		if err != nil {
			t.Fatal(err)
		}
		response := &discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{wrapped}}
		for file, data := range forms(t, response) {
			rs, errs := configload.File(file, data)
			if len(errs) > 0 || len(rs) != 1 {
				t.Fatalf("%s: %d resources, problems %v\n%s", file, len(rs), errs, data)
			}
			if d := cmp.Diff(m.Interface(), rs[0].Message, protocmp.Transform(), cmp.Comparer(sameFloat)); d != "" {
				t.Fatalf("%s:\n%s\n%s", file, d, data)
			}
		}
	})
}

func sameFloat(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// forms is a message in every format, in several spellings.
func forms(t *rapid.T, m proto.Message) map[string][]byte {
	out := map[string][]byte{}
	keep := func(file string, data []byte, err error) {
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[file] = data
	}
	camel, err := protojson.Marshal(m)
	keep("camel.json", camel, err)
	snake, err := protojson.MarshalOptions{UseProtoNames: true, UseEnumNumbers: true, Multiline: true}.Marshal(m)
	keep("snake.json", snake, err)
	text, err := prototext.Marshal(m)
	keep("line.pb_text", text, err)
	text, err = prototext.MarshalOptions{Multiline: true, EmitASCII: true}.Marshal(m)
	keep("lines.pb_text", text, err)
	bin, err := proto.Marshal(m)
	keep("f.pb", bin, err)
	y, err := toYAML(camel)
	keep("camel.yaml", y, err)
	y, err = toYAML(snake)
	keep("snake.yml", y, err)
	return out
}

// toYAML writes JSON as block-style YAML, with every string in quotes.
func toYAML(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return yaml.Marshal(yamlNode(v))
}

func yamlNode(v any) *yaml.Node {
	quoted := func(s string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}
	}
	switch v := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for k, e := range v {
			n.Content = append(n.Content, quoted(k), yamlNode(e))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, e := range v {
			n.Content = append(n.Content, yamlNode(e))
		}
		return n
	case string:
		return quoted(v)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: v.String()}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: map[bool]string{true: "true", false: "false"}[v]}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: "null"}
}

// generator draws random messages of at most budget fields.
type generator struct {
	t      *rapid.T
	budget int
}

func (g *generator) fill(m protoreflect.Message, depth int) {
	name := m.Descriptor().FullName()
	if strings.HasPrefix(string(name), "google.protobuf.") && g.wellKnown(m, depth) {
		return
	}
	fds := m.Descriptor().Fields()
	if fds.Len() == 0 {
		return
	}
	picks := rapid.SliceOfNDistinct(rapid.IntRange(0, fds.Len()-1), 0, min(fds.Len(), 6), rapid.ID).Draw(g.t, "fields")
	slices.Sort(picks)
	for _, i := range picks {
		if g.budget--; g.budget < 0 || depth > 8 {
			return
		}
		g.field(m, fds.Get(i), depth)
	}
}

func (g *generator) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int) {
	switch {
	case fd.IsMap():
		for range rapid.IntRange(1, 2).Draw(g.t, "size") {
			k := g.scalar(fd.MapKey()).MapKey()
			mp := m.Mutable(fd).Map()
			if fd.MapValue().Message() == nil {
				mp.Set(k, g.scalar(fd.MapValue()))
				continue
			}
			v := mp.NewValue()
			g.fill(v.Message(), depth+1)
			mp.Set(k, v)
		}
	case fd.IsList():
		for range rapid.IntRange(1, 2).Draw(g.t, "size") {
			l := m.Mutable(fd).List()
			if fd.Message() == nil {
				l.Append(g.scalar(fd))
				continue
			}
			g.fill(l.AppendMutable().Message(), depth+1)
		}
	case fd.Message() != nil:
		g.fill(m.Mutable(fd).Message(), depth+1)
	default:
		m.Set(fd, g.scalar(fd))
	}
}

func (g *generator) scalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	t := g.t
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.EnumKind:
		vs := fd.Enum().Values()
		return protoreflect.ValueOfEnum(vs.Get(rapid.IntRange(0, vs.Len()-1).Draw(t, "enum")).Number())
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, "string"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "bytes"))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(rapid.Float32().Draw(t, "float")))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN()), rapid.Just(math.Inf(-1))).Draw(t, "double"))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
	}
	return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "uint64"))
}

// wellKnown draws the types of which not every value has a JSON form.
func (g *generator) wellKnown(m protoreflect.Message, depth int) bool {
	fds := m.Descriptor().Fields()
	switch m.Descriptor().Name() {
	case "Any":
		g.any(m, depth)
	case "Duration", "Timestamp":
		m.Set(fds.ByNumber(1), protoreflect.ValueOfInt64(rapid.Int64Range(0, 1<<32).Draw(g.t, "seconds")))
		m.Set(fds.ByNumber(2), protoreflect.ValueOfInt32(rapid.Int32Range(0, 999999999).Draw(g.t, "nanos")))
	case "FieldMask":
		path := rapid.StringMatching(`[a-z]{1,4}(_[a-z]{1,4})?(\.[a-z]{1,3})?`).Draw(g.t, "path")
		m.Mutable(fds.ByNumber(1)).List().Append(protoreflect.ValueOfString(path))
	case "Value":
		g.value(m, depth)
	default:
		return false
	}
	return true
}

// value draws a Value. Whole numbers stay within int32, beyond which YAML
// carries them as strings (BS-10).
func (g *generator) value(m protoreflect.Message, depth int) {
	fds := m.Descriptor().Fields()
	kinds := []protoreflect.Name{"null_value", "number_value", "string_value", "bool_value"}
	if depth < 6 {
		kinds = append(kinds, "struct_value", "list_value")
	}
	fd := fds.ByName(rapid.SampledFrom(kinds).Draw(g.t, "kind"))
	switch {
	case fd.Message() != nil:
		g.fill(m.Mutable(fd).Message(), depth+1)
	case fd.Name() == "number_value":
		v := rapid.OneOf(rapid.Float64Range(-1e6, 1e6), rapid.Just(1e300), rapid.Just(-2147483648.0)).Draw(g.t, "number")
		m.Set(fd, protoreflect.ValueOfFloat64(v))
	default:
		m.Set(fd, g.scalar(fd))
	}
}

func (g *generator) any(m protoreflect.Message, depth int) {
	name := rapid.SampledFrom([]protoreflect.FullName{
		"google.protobuf.Duration", "google.protobuf.StringValue", "google.protobuf.Struct", "google.protobuf.Empty",
		"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "envoy.extensions.filters.http.router.v3.Router",
		"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "envoy.config.core.v3.Node",
	}).Draw(g.t, "any")
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		g.t.Fatal(err)
	}
	inner := mt.New()
	g.fill(inner, depth+1)
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(inner.Interface())
	if err != nil {
		g.t.Fatal(err)
	}
	m.Set(m.Descriptor().Fields().ByNumber(1), protoreflect.ValueOfString(xds.TypePrefix+string(name)))
	m.Set(m.Descriptor().Fields().ByNumber(2), protoreflect.ValueOfBytes(b))
}
