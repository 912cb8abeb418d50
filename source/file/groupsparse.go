package file

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// document reads the top of a groups.yaml.
func (p *groupsParser) document(n *yaml.Node) *groups {
	g := &groups{}
	found := false
	ok := p.mapping(n, "", []string{"groups"}, func(_ string, _, v *yaml.Node) {
		found = true
		p.sequence(v, "groups", false, func(field string, e *yaml.Node) {
			p.group(g, field, e)
		})
	})
	if ok && !found {
		p.fail(n, "groups", "missing-field", "there is no list of groups", "list them under groups:")
	}
	return g
}

// group reads one entry of the list into g.
func (p *groupsParser) group(g *groups, field string, n *yaml.Node) {
	e := group{pos: p.pos(n)}
	isDefault, hasMatch := false, false
	ok := p.mapping(n, field, []string{"name", "match", "folders", "default"}, func(key string, k, v *yaml.Node) {
		f := join(field, key)
		switch key {
		case "name":
			e.name, _ = p.text(v, f)
			e.pos = p.pos(v)
			p.groupName(g, f, v, e.name)
		case "match":
			hasMatch = true
			p.sequence(v, f, true, func(f string, r *yaml.Node) { p.rule(&e, f, r) })
			if len(deref(v).Content) == 0 {
				p.fail(v, f, "empty", "the match matches no node", "write default: true for a group of all other nodes")
			}
		case "folders":
			p.sequence(v, f, true, func(f string, d *yaml.Node) { p.folder(&e, f, d) })
		case "default":
			isDefault = p.boolean(v, f)
		}
	})
	if !ok {
		return
	}
	p.complete(&e, field, n, hasMatch || isDefault)
	g.list = append(g.list, e)
	if isDefault {
		if g.fallback != nil {
			p.fail(n, field+".default", "duplicate", fmt.Sprintf("group %q at %s is the default already", g.fallback.name, g.fallback.pos), "keep one default")
			return
		}
		g.fallback = &e
	}
}

// complete reports what a group lacks.
func (p *groupsParser) complete(e *group, field string, n *yaml.Node, reachable bool) {
	if e.name == "" {
		p.fail(n, field+".name", "missing-field", "the group has no name", "")
	}
	if len(e.folders) == 0 {
		p.fail(n, field+".folders", "missing-field", "the group gets no folder", `list its folders, or write folders: ["."] for all files`)
	}
	if !reachable {
		p.fail(n, field+".match", "missing-field", "no node can be in the group", "give it a match:, or default: true")
	}
}

func (p *groupsParser) groupName(g *groups, field string, n *yaml.Node, name string) {
	if name == UnmatchedGroup {
		p.fail(n, field, "invalid-value", fmt.Sprintf("%q is the name of the group of nodes that match nothing", name), "choose another name")
	}
	for i := range g.list {
		if name != "" && g.list[i].name == name {
			p.fail(n, field, "duplicate", fmt.Sprintf("group %q is already defined at %s", name, g.list[i].pos), "rename one of them, or merge them")
		}
	}
}

func (p *groupsParser) folder(e *group, field string, n *yaml.Node) {
	s, ok := p.text(n, field)
	if !ok {
		return
	}
	path, err := cleanFolder(s)
	if err != nil {
		// Kept all the same, so that the list is not called empty as well.
		p.fail(n, field, "invalid-value", err.Error(), "")
	}
	e.folders = append(e.folders, folder{path: path, pos: p.pos(n)})
}

func (p *groupsParser) boolean(n *yaml.Node, field string) bool {
	var b bool
	if n = deref(n); n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || n.Decode(&b) != nil {
		p.fail(n, field, "wrong-type", "true or false is expected here, not "+kind(n), "")
	}
	return b
}

// rule reads one element of a match list.
func (p *groupsParser) rule(e *group, field string, n *yaml.Node) {
	r := rule{pos: p.pos(n)}
	ok := p.mapping(n, field, []string{"id", "cluster", "locality", "metadata"}, func(key string, k, v *yaml.Node) {
		f := join(field, key)
		switch key {
		case "id", "cluster":
			p.condition(&r, f, key, nil, v)
		case "locality":
			p.mapping(v, f, []string{"region", "zone", "sub_zone"}, func(key string, _, v *yaml.Node) {
				p.condition(&r, join(f, key), "locality."+key, nil, v)
			})
		case "metadata":
			p.mapping(v, f, nil, func(key string, k, v *yaml.Node) {
				path := splitPath(key)
				if slices.Contains(path, "") {
					p.fail(k, join(f, key), "invalid-value", "the path has an empty part", `write \. for a dot that belongs to a key`)
				}
				p.condition(&r, join(f, key), "metadata", path, v)
			})
		}
	})
	if ok && len(r.conditions) == 0 {
		p.fail(n, field, "empty", "the rule compares nothing", "write default: true for a group of all other nodes")
	}
	e.rules = append(e.rules, r)
}

// condition reads a matcher: text, or a mapping with one of its forms.
func (p *groupsParser) condition(r *rule, field, property string, path []string, n *yaml.Node) {
	form, text := "exact", ""
	if deref(n).Kind != yaml.MappingNode {
		text, _ = p.text(n, field)
	} else {
		forms := []string{"exact", "prefix", "glob", "regex"}
		count := 0
		p.mapping(n, field, forms, func(key string, _, v *yaml.Node) {
			count++
			form = key
			text, _ = p.text(v, join(field, key))
		})
		if count != 1 {
			p.fail(n, field, "invalid-value", "exactly one of exact, prefix, glob and regex is expected",
				"inside metadata, write the keys on the way as one path: labels.app")
		}
	}
	m, err := newMatcher(form, text)
	if err != nil {
		p.fail(n, field, "invalid-value", err.Error(), "")
		// Counted all the same, so that the rule is not called empty as well.
	}
	r.conditions = append(r.conditions, condition{field: property, path: path, want: m})
}
