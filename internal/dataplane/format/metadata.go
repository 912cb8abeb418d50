package format

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// namespaceOf finds the metadata of a namespace; nil if there is none.
type namespaceOf func(c *Context, namespace string) *structpb.Struct

func dynamicMetadata(t *token, _ *Options) (*op, error) { return metadata(t.param, dynamicOf), nil }
func clusterMetadata(t *token, _ *Options) (*op, error) { return metadata(t.param, clusterOf), nil }
func upstreamMetadata(t *token, _ *Options) (*op, error) {
	return metadata(t.param, upstreamOf), nil
}

func dynamicOf(c *Context, ns string) *structpb.Struct {
	if c.Info == nil {
		return nil
	}
	return c.Info.Metadata[ns]
}

func clusterOf(c *Context, ns string) *structpb.Struct {
	if c.Info == nil {
		return nil
	}
	return c.Info.ClusterMetadata.GetFilterMetadata()[ns]
}

func upstreamOf(c *Context, ns string) *structpb.Struct {
	if up := c.upstream(); up != nil {
		return up.Metadata.GetFilterMetadata()[ns]
	}
	return nil
}

// anyMetadata is METADATA(TYPE:namespace:key...).
func anyMetadata(t *token, _ *Options) (*op, error) {
	kind, path, _ := strings.Cut(t.param, ":")
	configured := func(get func(*Context) *corev3.Metadata) namespaceOf {
		return func(c *Context, ns string) *structpb.Struct {
			if c.Info == nil {
				return nil
			}
			return get(c).GetFilterMetadata()[ns]
		}
	}
	var of namespaceOf
	switch kind {
	case "DYNAMIC":
		of = dynamicOf
	case "CLUSTER":
		of = clusterOf
	case "UPSTREAM_HOST":
		of = upstreamOf
	case "ROUTE":
		of = configured(func(c *Context) *corev3.Metadata { return c.Info.RouteMetadata })
	case "VIRTUAL_HOST":
		of = configured(func(c *Context) *corev3.Metadata { return c.Info.VirtualHostMetadata })
	case "LISTENER":
		of = configured(func(c *Context) *corev3.Metadata {
			if cx := c.connection(); cx != nil {
				return cx.ListenerMetadata
			}
			return nil
		})
	case "LISTENER_FILTER_CHAIN":
		of = configured(func(c *Context) *corev3.Metadata {
			if cx := c.connection(); cx != nil {
				return cx.FilterChainMetadata
			}
			return nil
		})
	default:
		return nil, fmt.Errorf("%s is not supported type of metadata", kind)
	}
	return metadata(path, of), nil
}

// metadata shows a namespace, or the value under keys in it.
func metadata(path string, of namespaceOf) *op {
	p := strings.Split(path, ":")
	namespace, keys := p[0], p[1:]
	return &op{value: func(dst []byte, c *Context, json bool) ([]byte, bool) {
		s := of(c, namespace)
		if s == nil {
			return dst, false
		}
		if len(keys) == 0 {
			return appendStruct(dst, s), true
		}
		var v *structpb.Value
		for i, k := range keys {
			if v = s.GetFields()[k]; v == nil {
				return dst, false
			}
			if s = v.GetStructValue(); s == nil && i < len(keys)-1 {
				return dst, false
			}
		}
		return appendShown(dst, v, json)
	}}
}

// appendShown appends a value: a string as it is, unless in JSON.
func appendShown(dst []byte, v *structpb.Value, json bool) ([]byte, bool) {
	switch k := v.GetKind().(type) {
	case nil, *structpb.Value_NullValue:
		return dst, false
	case *structpb.Value_StringValue:
		if !json {
			return append(dst, k.StringValue...), true
		}
	}
	return appendValue(dst, v), true
}

// fielder is a filter state with parts that have names.
type fielder interface {
	Field(name string) (string, bool)
}

// StateText is an object of the filter state as a text, or with a field's name that part
// of it, if it has such parts: as matchers of filter state see it. An object that
// cannot show itself has none.
func StateText(v any, field string) (string, bool) {
	if f, ok := v.(fielder); ok && field != "" {
		return f.Field(field)
	}
	b, ok := appendState(nil, v, false, false)
	return string(b), ok
}

// filterState is FILTER_STATE(key:PLAIN|TYPED|FIELD:name).
func filterState(t *token, _ *Options) (*op, error) {
	p := strings.Split(t.param, ":")
	key := p[0]
	if key == "" {
		return nil, errors.New("Invalid filter state configuration, key cannot be empty.") //nolint:revive,staticcheck // Envoy's text
	}
	form, name := "TYPED", ""
	if len(p) > 1 && p[1] != "" {
		form = p[1]
	}
	if len(p) > 2 {
		name = p[2]
	}
	switch {
	case form != "PLAIN" && form != "TYPED" && form != "FIELD":
		return nil, errors.New("Invalid filter state serialize type, only support PLAIN/TYPED/FIELD.") //nolint:revive,staticcheck // Envoy's text
	case (form == "FIELD") != (name != ""):
		return nil, errors.New("Invalid filter state serialize type, FIELD should be used with the field name.") //nolint:revive,staticcheck // Envoy's text
	}
	upstream := t.name == "UPSTREAM_FILTER_STATE" // of the router's upstream log only
	return &op{whole: form == "TYPED", value: func(dst []byte, c *Context, json bool) ([]byte, bool) {
		if c.Info == nil || upstream {
			return dst, false
		}
		v, ok := c.Info.State[key]
		if !ok {
			return dst, false
		}
		if form == "FIELD" {
			f, is := v.(fielder)
			if !is {
				return dst, false
			}
			if v, ok = f.Field(name); !ok {
				return dst, false
			}
		}
		return appendState(dst, v, json, form == "TYPED")
	}}, nil
}

// appendState appends an object of the filter state: as a text, or typed, or as
// JSON. An object that cannot show itself has no value.
func appendState(dst []byte, v any, json, typed bool) ([]byte, bool) {
	s := ""
	switch v := v.(type) {
	case *structpb.Value:
		return appendShown(dst, v, json || typed)
	case proto.Message:
		b, err := protojson.Marshal(v)
		if err != nil {
			return dst, false
		}
		if json && !typed {
			return appendQuoted(dst, string(b)), true
		}
		return append(dst, b...), true
	case bool:
		return strconv.AppendBool(dst, v), true
	case int:
		return strconv.AppendInt(dst, int64(v), 10), true
	case int64:
		return strconv.AppendInt(dst, v, 10), true
	case uint64:
		return strconv.AppendUint(dst, v, 10), true
	case string:
		s = v
	case fmt.Stringer:
		s = v.String()
	default:
		return dst, false
	}
	if json || typed {
		return appendQuoted(dst, s), true
	}
	return append(dst, s...), true
}
