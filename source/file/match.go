package file

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/xds"
)

// rule matches a node if all its conditions do.
type rule struct {
	pos        xds.Position
	conditions []condition
}

// condition compares one property of a node.
type condition struct {
	field string   // "id", "cluster", "locality.region", … or "metadata"
	path  []string // the keys inside the metadata
	want  matcher
}

// matcher compares text. Exactly one of its forms is in use.
type matcher struct {
	form, text string         // form is "exact", "prefix", "glob" or "regex"
	re         *regexp.Regexp // of a glob or regex
}

func newMatcher(form, text string) (matcher, error) {
	m := matcher{form: form, text: text}
	expr := text
	switch form {
	case "exact", "prefix":
		return m, nil
	case "glob":
		expr = regexp.QuoteMeta(text)
		expr = strings.ReplaceAll(expr, `\*`, `.*`)
		expr = strings.ReplaceAll(expr, `\?`, `.`)
	case "regex":
		// Checked alone first, so that the error shows what the user wrote.
		if _, err := regexp.Compile(text); err != nil {
			return m, fmt.Errorf("not a regular expression (RE2 syntax): %w", err)
		}
	default:
		return m, fmt.Errorf("unknown kind of match %q; use exact, prefix, glob or regex", form)
	}
	re, err := regexp.Compile(`\A(?s:` + expr + `)\z`)
	if err != nil {
		return m, fmt.Errorf("not a usable expression: %w", err)
	}
	m.re = re
	return m, nil
}

func (m matcher) matches(s string) bool {
	switch m.form {
	case "exact":
		return s == m.text
	case "prefix":
		return strings.HasPrefix(s, m.text)
	}
	return m.re.MatchString(s)
}

func (m matcher) String() string {
	if m.form == "exact" {
		return strconv.Quote(m.text)
	}
	return m.form + " " + strconv.Quote(m.text)
}

func (r *rule) matches(n *xds.Node) bool {
	for i := range r.conditions {
		if !r.conditions[i].matches(n) {
			return false
		}
	}
	return true
}

// describe says in words why a node that the rule matches does so.
func (r *rule) describe(n *xds.Node) string {
	parts := make([]string, len(r.conditions))
	for i := range r.conditions {
		c := &r.conditions[i]
		name := c.field
		if len(c.path) > 0 {
			name += " " + strings.Join(c.path, ".")
		}
		parts[i] = fmt.Sprintf("%s %q is %s", name, c.value(n), c.want)
	}
	return strings.Join(parts, ", ")
}

func (c *condition) matches(n *xds.Node) bool {
	if c.field != "metadata" {
		return c.want.matches(property(n, c.field))
	}
	_, ok := c.metadata(n)
	return ok
}

// value is the text that the condition matched, for describe.
func (c *condition) value(n *xds.Node) string {
	if c.field != "metadata" {
		return property(n, c.field)
	}
	s, _ := c.metadata(n)
	return s
}

func property(n *xds.Node, field string) string {
	switch field {
	case "id":
		return n.ID
	case "cluster":
		return n.Cluster
	case "locality.region":
		return n.Region
	case "locality.zone":
		return n.Zone
	case "locality.sub_zone":
		return n.SubZone
	}
	return ""
}

// metadata returns the first value at the condition's path that matches.
func (c *condition) metadata(n *xds.Node) (string, bool) {
	fields := n.Metadata.GetFields()
	for i, k := range c.path {
		v, ok := fields[k]
		if !ok {
			return "", false
		}
		if i == len(c.path)-1 {
			return c.scalar(v)
		}
		fields = v.GetStructValue().GetFields()
	}
	return "", false
}

// scalar compares a metadata value as text; a list matches if one of its
// elements does.
func (c *condition) scalar(v *structpb.Value) (string, bool) {
	var s string
	switch v := v.GetKind().(type) {
	case *structpb.Value_StringValue:
		s = v.StringValue
	case *structpb.Value_NumberValue:
		s = strconv.FormatFloat(v.NumberValue, 'f', -1, 64)
	case *structpb.Value_BoolValue:
		s = strconv.FormatBool(v.BoolValue)
	case *structpb.Value_ListValue:
		for _, e := range v.ListValue.GetValues() {
			if _, nested := e.GetKind().(*structpb.Value_ListValue); nested {
				continue
			}
			if s, ok := c.scalar(e); ok {
				return s, true
			}
		}
		return "", false
	default:
		return "", false
	}
	return s, c.want.matches(s)
}

// splitPath cuts a metadata path at its dots; `\.` is a dot inside a key.
func splitPath(s string) []string {
	const dot = "\x00"
	parts := strings.Split(strings.ReplaceAll(s, `\.`, dot), ".")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], dot, ".")
	}
	return parts
}
