package configload

import (
	"strconv"
	"strings"

	udpaannotations "github.com/cncf/xds/go/udpa/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// frame is one step of the path to where the builder is: a field, a key of a
// map, or an index of a list.
type frame struct {
	fd    protoreflect.FieldDescriptor
	key   string
	isKey bool
	// unknown marks the name of a field that does not exist.
	unknown bool
	index   int
}

func (b *builder) push(f frame) { b.path = append(b.path, f) }

func (b *builder) pop() { b.path = b.path[:len(b.path)-1] }

// pathString is the path in the syntax of Positions.Position.
func (b *builder) pathString() string {
	var s strings.Builder
	for _, f := range b.path {
		switch {
		case f.fd != nil:
			if s.Len() > 0 {
				s.WriteByte('.')
			}
			s.WriteString(string(f.fd.Name()))
		case f.unknown:
			if s.Len() > 0 {
				s.WriteByte('.')
			}
			s.WriteString(clip(f.key))
		case f.isKey:
			s.WriteString("[" + strconv.Quote(clip(f.key)) + "]")
		default:
			s.WriteString("[" + strconv.Itoa(f.index) + "]")
		}
	}
	return s.String()
}

// quote is a scalar for a message. Values of sensitive fields are left out.
func (b *builder) quote(n *node) string {
	if b.sensitive() {
		return "(hidden)"
	}
	if n.kind != stringNode {
		return clip(n.text)
	}
	return strconv.Quote(clip(n.text))
}

// sensitive reports whether the API marks a field on the path as secret.
func (b *builder) sensitive() bool {
	for _, f := range b.path {
		if f.fd == nil {
			continue
		}
		if hidden, ok := proto.GetExtension(f.fd.Options(), udpaannotations.E_Sensitive).(bool); ok && hidden {
			return true
		}
	}
	return false
}
