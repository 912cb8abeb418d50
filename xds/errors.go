package xds

import "strings"

// ResourceError is an error about one resource, with the place it comes from.
type ResourceError struct {
	// Type is the type URL, Name the resource's name; either may be empty when
	// the resource could not be read that far.
	Type, Name string
	// Path is the field path inside the resource, such as
	// "filter_chains[0].filters[1].typed_config.stat_prefix".
	Path string
	// Pos is the place in the source file, if there is one.
	Pos Position
	// Err says what is wrong.
	Err error
}

// Error is "file:line:column: Kind "name": path: what is wrong", without the
// parts that are unknown.
func (e *ResourceError) Error() string {
	var b strings.Builder
	if p := e.Pos.String(); p != "" {
		b.WriteString(p + ": ")
	}
	if e.Type != "" {
		b.WriteString(Kind(e.Type) + " ")
	}
	if e.Name != "" {
		b.WriteString(`"` + e.Name + `" `)
	}
	s := strings.TrimSuffix(b.String(), " ")
	if s != "" && !strings.HasSuffix(s, ":") {
		s += ":"
	}
	for _, part := range []string{e.Path + ":", e.Err.Error()} {
		if part == ":" {
			continue
		}
		if s != "" {
			s += " "
		}
		s += part
	}
	return s
}

// Unwrap returns Err.
func (e *ResourceError) Unwrap() error { return e.Err }
