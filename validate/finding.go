// Package validate says what is wrong with resources, before a client does:
// rules of the messages themselves, those that Envoy and gRPC check beside them,
// and references between resources.
package validate

import (
	"fmt"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
)

// Severity says what a finding leads to.
type Severity string

// Severities. An error keeps the resource from being served, a warning does not.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Tier says what was compared with what.
type Tier string

// Tiers: the file's syntax and the message's own rules; other resources.
const (
	Schema    Tier = "schema"
	Reference Tier = "reference"
)

// Finding is one thing that is wrong.
type Finding struct {
	Severity Severity     `json:"severity"`
	Tier     Tier         `json:"tier"`
	Code     string       `json:"code"` // stable, kebab-case, such as "unknown-field"
	Type     string       `json:"type,omitempty"`
	Name     string       `json:"name,omitempty"`
	Path     string       `json:"path,omitempty"`
	Pos      xds.Position `json:"pos,omitzero"`
	Message  string       `json:"message"`
	Hint     string       `json:"hint,omitempty"` // what to do next
}

// String is the finding on one line, position first, as compilers write it.
func (f Finding) String() string {
	var b strings.Builder
	if p := f.Pos.String(); p != "" {
		b.WriteString(p + ": ")
	}
	fmt.Fprintf(&b, "%s: ", f.Severity)
	if f.Type != "" {
		b.WriteString(xds.Kind(f.Type) + " ")
	}
	if f.Name != "" {
		fmt.Fprintf(&b, "%q ", f.Name)
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Message)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}
