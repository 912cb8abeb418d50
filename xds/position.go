package xds

import (
	"fmt"
	"strings"
)

// Position is a place in a source file. Line and Column count from 1; 0 means
// unknown. The zero Position means "not from a file".
type Position struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

// String is "file:line:column", without the parts that are unknown.
func (p Position) String() string {
	switch {
	case p.File == "" && p.Line == 0:
		return ""
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// IsZero reports whether nothing is known.
func (p Position) IsZero() bool { return p == Position{} }

func equalFold(a, b string) bool { return strings.EqualFold(a, b) }

func trimTypePrefix(s string) string { return strings.TrimPrefix(s, TypePrefix) }

func dotted(major, minor, patch uint32) string {
	return fmt.Sprintf("%d.%d.%d", major, minor, patch)
}
