package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// parseGroups reads a groups.yaml. It returns nil if there is any error, and
// all the findings it can make, not only the first.
func parseGroups(name string, data []byte) (*groups, []validate.Finding) {
	p := groupsParser{file: name}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		p.fail(nil, "", "empty", "the file is empty", "list the groups under groups:, or delete the file to have one group")
		return nil, p.findings
	case err != nil:
		p.syntax(err)
		return nil, p.findings
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		if err != nil {
			p.syntax(err)
		} else {
			p.fail(nil, "", "syntax", "the file holds more than one document", "put all groups into one list")
		}
		return nil, p.findings
	}
	g := p.document(doc.Content[0])
	if len(p.findings) > 0 {
		return nil, p.findings
	}
	return g, nil
}

// groupsParser walks the YAML tree and collects findings.
type groupsParser struct {
	file     string
	findings []validate.Finding
}

func (p *groupsParser) pos(n *yaml.Node) xds.Position {
	if n == nil {
		return xds.Position{File: p.file}
	}
	return xds.Position{File: p.file, Line: n.Line, Column: n.Column}
}

func (p *groupsParser) fail(n *yaml.Node, field, code, msg, hint string) {
	p.findings = append(p.findings, validate.Finding{
		Severity: validate.Error, Tier: validate.Schema, Code: code,
		Path: field, Pos: p.pos(n), Message: msg, Hint: hint,
	})
}

// syntax turns the library's error into a finding; it has the line only as
// text.
func (p *groupsParser) syntax(err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	p.fail(nil, "", "syntax", msg, "")
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(msg); m != nil {
		f := &p.findings[len(p.findings)-1]
		f.Pos.Line, _ = strconv.Atoi(m[1])
		f.Message = strings.TrimPrefix(msg, m[0])
	}
}

// mapping calls each for every key in known; other keys, and keys written
// twice, are findings. It reports whether n is a mapping.
func (p *groupsParser) mapping(n *yaml.Node, field string, known []string, each func(key string, k, v *yaml.Node)) bool {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		p.fail(n, field, "wrong-type", "a mapping is expected here, not "+kind(n), "")
		return false
	}
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := deref(k).Value
		first, twice := seen[key]
		seen[key] = k
		switch {
		case deref(k).Kind != yaml.ScalarNode:
			p.fail(k, field, "wrong-type", "a key must be text, not "+kind(deref(k)), "")
		case twice:
			p.fail(k, join(field, key), "duplicate-key", fmt.Sprintf("the key is already given at %s", p.pos(first)), "keep one of them")
		case known != nil && !slices.Contains(known, key):
			p.fail(k, join(field, key), "unknown-field", fmt.Sprintf("unknown field %q", key), "known here: "+strings.Join(known, ", "))
		default:
			each(key, k, v)
		}
	}
	return true
}

// sequence calls each for every element; a single element may stand without
// its list if single is set.
func (p *groupsParser) sequence(n *yaml.Node, field string, single bool, each func(field string, v *yaml.Node)) {
	n = deref(n)
	switch {
	case n.Kind == yaml.SequenceNode:
		for i, v := range n.Content {
			each(fmt.Sprintf("%s[%d]", field, i), v)
		}
	case single:
		each(field, n)
	default:
		p.fail(n, field, "wrong-type", "a list is expected here, not "+kind(n), "")
	}
}

// text reads a scalar that is not null.
func (p *groupsParser) text(n *yaml.Node, field string) (string, bool) {
	n = deref(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		p.fail(n, field, "wrong-type", "text is expected here, not "+kind(n), "")
		return "", false
	}
	return n.Value, true
}

func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return "nothing"
		}
		return strconv.Quote(n.Value)
	}
	return "this"
}

func join(field, key string) string {
	if field == "" {
		return key
	}
	return field + "." + key
}
