package route

import (
	"strings"
	"unsafe"

	"github.com/xebec-proxy/xebec/filter/header"
)

// text is a configured text, with or without substitutions.
type text struct {
	plain string
	f     Formatter
}

func (b *builder) text(path, s string) text {
	if !strings.Contains(s, "%") {
		return text{plain: s}
	}
	f, err := b.env.formatter(s)
	if err != nil {
		b.fail(path, err)
		return text{}
	}
	return text{f: f}
}

func (t *text) isSet() bool { return t.plain != "" || t.f != nil }

// make is the text for a request; it lives as long as the header map that it
// is for.
func (t *text) make(c *Context, into *header.Map) string {
	if t.f == nil {
		return t.plain
	}
	arena := into.Arena()
	start := len(arena)
	arena, _ = t.f.Append(arena, c.Request, c.Response, c.Info)
	into.SetArena(arena)
	return view(arena[start:])
}

// keep joins texts in the memory of a header map.
func keep(m *header.Map, parts ...string) string {
	arena := m.Arena()
	start := len(arena)
	for _, p := range parts {
		arena = append(arena, p...)
	}
	m.SetArena(arena)
	return view(arena[start:])
}

// view is bytes of a header map's memory as a string, without a copy.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
