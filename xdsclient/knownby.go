package xdsclient

import "slices"

// asked is the name by which what a watch finds is told to the program.
func (x *watch) asked() string {
	for x.way != nil && x.way.of != nil {
		if x.way.role == memberOf {
			return x.way.as
		}
		x = x.way.of
	}
	return x.known()
}

// knownBy are the names by which a resource is asked for: its own, unless only
// redirects and the like lead to it.
func (t *typeState) knownBy(name string) []string {
	e := t.entries[name]
	if e == nil || len(e.watches) == 0 {
		return []string{name}
	}
	var names []string
	for _, x := range e.watches {
		if n := x.asked(); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if !slices.Contains(names, name) && t.covered(name) {
		names = append(names, name)
	}
	return names
}

// knownByEntry is knownBy for an inline entry of a list collection.
func (t *typeState) knownByEntry(collection string, n *listed) []string {
	names := []string{n.name}
	e := t.entries[collection]
	if e == nil {
		return names
	}
	for _, x := range e.watches {
		if x.way == nil || n.label == "" || x.way.entry != n.label {
			continue
		}
		if as := x.asked(); !slices.Contains(names, as) {
			names = append(names, as)
		}
	}
	return names
}
