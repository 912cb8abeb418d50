package proxyrun

import (
	"strconv"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/xds"
)

// Positions finds the place of a field path of the loaded bootstrap: in the
// file, or in what was given inline, whose lists follow those of the file. A nil
// Positions knows nothing. It is safe for concurrent use once loaded.
type Positions struct {
	file, inline *configload.Positions
	// base is the file's message and over the inline one; nil if there is none.
	base, over *bootstrapv3.Bootstrap
	// skipped are list elements that were taken out, by their old paths.
	skipped []string
}

// Position is where a field was written, or the nearest enclosing one that was.
// It implements validate.Locator.
func (p *Positions) Position(path string) xds.Position {
	if p == nil {
		return xds.Position{}
	}
	path = p.before(path)
	if p.over == nil {
		return p.file.Position(path)
	}
	if own, ok := p.inlinePath(path); ok || p.base == nil {
		pos := p.inline.Position(own)
		pos.File = inlineName
		return pos
	}
	return p.file.Position(path)
}

// before is a path as it was before elements were taken out of lists.
func (p *Positions) before(path string) string {
	for _, s := range p.skipped {
		open := strings.LastIndexByte(s, '[')
		gone, err := strconv.Atoi(strings.TrimSuffix(s[open+1:], "]"))
		rest, ok := strings.CutPrefix(path, s[:open+1])
		if err != nil || !ok {
			continue
		}
		number, tail, _ := strings.Cut(rest, "]")
		if i, err := strconv.Atoi(number); err == nil && i >= gone {
			path = s[:open+1] + strconv.Itoa(i+1) + "]" + tail
		}
	}
	return path
}

// inlinePath is a path of the merged message as one of the inline message, if
// that has the field.
func (p *Positions) inlinePath(path string) (string, bool) {
	var own strings.Builder
	var base protoreflect.Message
	if p.base != nil {
		base = p.base.ProtoReflect()
	}
	over := p.over.ProtoReflect()
	for path != "" {
		name, rest := cutField(path)
		over, base = unpacked(over), unpacked(base)
		fd := over.Descriptor().Fields().ByName(protoreflect.Name(name))
		if fd == nil || !over.Has(fd) {
			return own.String(), false
		}
		if own.Len() > 0 {
			own.WriteByte('.')
		}
		own.WriteString(name)
		var inner protoreflect.Message
		switch {
		case fd.IsList():
			number, after, bracket := cutBracket(rest)
			if !bracket {
				return own.String(), rest == ""
			}
			i, err := strconv.Atoi(number)
			i -= length(base, fd)
			if err != nil || i < 0 || i >= over.Get(fd).List().Len() {
				return own.String(), false
			}
			own.WriteString("[" + strconv.Itoa(i) + "]")
			if fd.Message() == nil {
				return own.String(), after == ""
			}
			inner, base, path = over.Get(fd).List().Get(i).Message(), nil, after
		case fd.IsMap(), fd.Message() == nil:
			// What a map's entry or an Any holds comes from one side as a whole.
			own.WriteString(rest)
			return own.String(), true
		default:
			inner, path = over.Get(fd).Message(), rest
			base = member(base, fd)
		}
		over = inner
		path = strings.TrimPrefix(path, ".")
	}
	return own.String(), true
}

// unpacked is what an Any holds, or the message itself.
func unpacked(m protoreflect.Message) protoreflect.Message {
	if m == nil {
		return nil
	}
	a, ok := m.Interface().(*anypb.Any)
	if !ok {
		return m
	}
	var inner proto.Message
	inner, err := a.UnmarshalNew()
	if err != nil {
		return m
	}
	return inner.ProtoReflect()
}

// member is the message in a field, nil if it is not set or of another kind.
func member(m protoreflect.Message, fd protoreflect.FieldDescriptor) protoreflect.Message {
	if m == nil || m.Descriptor() != fd.ContainingMessage() || !m.Has(fd) {
		return nil
	}
	return m.Get(fd).Message()
}

func length(m protoreflect.Message, fd protoreflect.FieldDescriptor) int {
	if m == nil || m.Descriptor() != fd.ContainingMessage() {
		return 0
	}
	return m.Get(fd).List().Len()
}

// cutField takes the name of the first field off a path.
func cutField(path string) (name, rest string) {
	i := strings.IndexAny(path, ".[")
	if i < 0 {
		return path, ""
	}
	return path[:i], strings.TrimPrefix(path[i:], ".")
}

// cutBracket takes an index off a path.
func cutBracket(path string) (number, rest string, ok bool) {
	inner, ok := strings.CutPrefix(path, "[")
	if !ok {
		return "", path, false
	}
	return cut(inner)
}

func cut(inner string) (number, rest string, ok bool) {
	number, rest, ok = strings.Cut(inner, "]")
	return number, rest, ok
}
