package configload

import (
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
)

// Positions knows where the fields of one message were written. It is
// immutable and safe for concurrent use; a nil Positions knows nothing.
type Positions struct {
	file     string
	root     *place
	warnings []*xds.ResourceError
}

// place is where a field, a list element or a map entry was written.
type place struct {
	key       string // of a field or a map entry
	index     int32  // of a list element
	line, col int32
	kids      []place
}

// add appends a kid. The pointer is good until the next add to the same place.
func (p *place) add(key string, index int, line, col int32) *place {
	p.kids = append(p.kids, place{key: key, index: int32(index), line: line, col: col})
	return &p.kids[len(p.kids)-1]
}

// field finds the kid of a field or adds it.
func (p *place) field(key string, line, col int32) *place {
	if k := p.find(step{key: key}); k != nil {
		return k
	}
	return p.add(key, 0, line, col)
}

// Position is the place of a field path in proto field names, such as
// `filter_chains[0].filters[1].typed_config.stat_prefix`; the entry of a map is
// written `metadata.filter_metadata["envoy.lb"]`, quotes optional. The content
// of an Any follows its field without a step of its own. For a path that was
// not written down it is the place of the nearest enclosing one.
func (p *Positions) Position(path string) xds.Position {
	if p == nil {
		return xds.Position{}
	}
	at := p.root
	for at != nil && path != "" {
		var s step
		s, path = nextStep(path)
		kid := at.find(s)
		if kid == nil {
			break
		}
		at = kid
	}
	if at == nil {
		return xds.Position{File: p.file}
	}
	return xds.Position{File: p.file, Line: int(at.line), Column: int(at.col)}
}

// Warnings is what was accepted but should be changed. Read-only.
func (p *Positions) Warnings() []*xds.ResourceError {
	if p == nil {
		return nil
	}
	return p.warnings
}

// step is one step of a path: a field name, or what stands in brackets.
type step struct {
	key     string
	bracket bool
}

// nextStep takes the first step off a path.
func nextStep(path string) (step, string) {
	path = strings.TrimPrefix(path, ".")
	if !strings.HasPrefix(path, "[") {
		if i := strings.IndexAny(path, ".["); i >= 0 {
			return step{key: path[:i]}, path[i:]
		}
		return step{key: path}, ""
	}
	if q, err := strconv.QuotedPrefix(path[1:]); err == nil {
		if key, err := strconv.Unquote(q); err == nil {
			return step{key: key, bracket: true}, strings.TrimPrefix(path[1+len(q):], "]")
		}
	}
	if i := strings.IndexByte(path, ']'); i >= 0 {
		return step{key: path[1:i], bracket: true}, path[i+1:]
	}
	return step{key: path[1:], bracket: true}, ""
}

// find is the kid of a step, or nil. A list's kids are in order, so an index is
// tried at its own place first.
func (p *place) find(s step) *place {
	if i, err := strconv.Atoi(s.key); err == nil && s.bracket {
		if i >= 0 && i < len(p.kids) && p.kids[i].key == "" && int(p.kids[i].index) == i {
			return &p.kids[i]
		}
	}
	for i := range p.kids {
		k := &p.kids[i]
		if k.key == s.key && s.key != "" || s.bracket && k.key == "" && strconv.Itoa(int(k.index)) == s.key {
			return k
		}
	}
	return nil
}
