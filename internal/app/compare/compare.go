// Package compare tells how two sets of resources differ: those of directories,
// files and servers.
package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/xebec-proxy/xebec/internal/app/check"
	"github.com/xebec-proxy/xebec/internal/app/configdump"
	"github.com/xebec-proxy/xebec/internal/app/follow"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// Key names a resource of a set. Sets with several groups may have one name in
// more than one.
type Key struct {
	Group string
	xds.Key
}

// Set is resources by name, each in a form that can be shown.
type Set map[Key]*follow.Resource

// Kinds of differences.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Difference is a resource that the sets do not have alike.
type Difference struct {
	Kind     string           `json:"difference"`
	Group    string           `json:"group,omitempty"`
	Resource string           `json:"name"`
	TypeURL  string           `json:"type_url"`
	Before   *follow.Resource `json:"before,omitempty"`
	After    *follow.Resource `json:"after,omitempty"`
}

// Sets tells what is to be done to the first set to get the second, sorted by
// group, type and name. Versions do not count.
func Sets(a, b Set) []Difference {
	var out []Difference
	for _, k := range slices.SortedFunc(maps.Keys(a), order) {
		switch was, is := a[k], b[k]; {
		case is == nil:
			out = append(out, difference(Removed, k, was, nil))
		case string(was.Content) != string(is.Content):
			out = append(out, difference(Changed, k, was, is))
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(b), order) {
		if a[k] == nil {
			out = append(out, difference(Added, k, nil, b[k]))
		}
	}
	slices.SortStableFunc(out, func(x, y Difference) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.TypeURL, y.TypeURL), cmp.Compare(x.Resource, y.Resource))
	})
	return out
}

func difference(kind string, k Key, was, is *follow.Resource) Difference {
	return Difference{Kind: kind, Group: k.Group, Resource: k.Name, TypeURL: k.Type, Before: was, After: is}
}

func order(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
}

// Files reads two directories, each as a server would, or files, of which config
// dumps show less than the others. What a server could not serve is an error, which
// lists what is wrong.
func Files(a, b string) (first, last Set, err error) {
	one, err := read(a, nil)
	if err != nil {
		return nil, nil, err
	}
	two, err := read(b, nil)
	if err != nil {
		return nil, nil, err
	}
	if one.dump == nil || two.dump == nil {
		one.align(two.dump != nil)
		two.align(one.dump != nil)
	}
	return one.set, two.set, nil
}

// ReadFor is Files for what one node would get of one of them.
func ReadFor(path string, n *xds.Node) (Set, error) {
	c, err := read(path, n)
	if err == nil {
		c.align(false)
	}
	return c.set, err
}

// content is what a path leads to; dump is nil unless it is a config dump.
type content struct {
	set  Set
	dump []configdump.Resource
}

// align takes out what cannot be compared: of a dump what no server has brought,
// and with a dump what those do not show. Endpoints are in a dump as they have
// become.
func (c *content) align(withDump bool) {
	if c.dump != nil {
		c.set = ofDump(slices.DeleteFunc(slices.Clone(c.dump), func(r configdump.Resource) bool { return r.Static }))
	}
	if c.dump != nil || withDump {
		maps.DeleteFunc(c.set, func(k Key, _ *follow.Resource) bool { return !configdump.Shows(k.Type) })
	}
}

// ofDump is a dump as a set; of several with one name the first counts.
func ofDump(list []configdump.Resource) Set {
	out := Set{}
	for i := len(list) - 1; i >= 0; i-- {
		r := &list[i]
		out[Key{"", xds.Key{Type: r.TypeURL, Name: r.Name}}] = follow.NewResource(r.Name, r.Version, r.TypeURL, r.Body)
	}
	return out
}

func read(path string, n *xds.Node) (content, error) {
	c := content{set: Set{}}
	info, err := os.Stat(path)
	if err != nil {
		return c, fmt.Errorf("%w", err)
	}
	if info.IsDir() {
		return c, c.set.directory(path, n)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("%w", err)
	}
	if configdump.Is(data) {
		list, err := configdump.Read(data)
		if err != nil {
			return c, fmt.Errorf("%s: %w", path, err)
		}
		return content{ofDump(list), append([]configdump.Resource{}, list...)}, nil
	}
	list, err := check.Resources([]string{path})
	for _, r := range list {
		c.set.put("", r)
	}
	return c, err //nolint:wrapcheck // it names the file
}

// directory takes over what a server would read.
func (s Set) directory(path string, n *xds.Node) error {
	batch, findings, err := file.Load(path)
	if err != nil {
		return err //nolint:wrapcheck // it names the directory
	}
	var errs []error
	for _, f := range findings {
		if f.Severity == validate.Error {
			errs = append(errs, errors.New(f.String()))
		}
	}
	for group, c := range batch.Groups {
		switch {
		case n != nil && batch.GroupOf != nil && batch.GroupOf(n) != group:
			continue
		case n != nil || len(batch.Groups) == 1:
			group = "" // as in a directory without groups
		}
		for _, r := range c.Set {
			s.put(group, r)
		}
	}
	return errors.Join(errs...)
}

func (s Set) put(group string, r *xds.Resource) {
	s[Key{group, r.Key()}] = follow.NewResource(r.Name(), r.Version(), r.TypeURL(), r.Body())
}

// Served asks a server for everything that can be asked for as a whole, and by
// name for the rest of what a set has.
func Served(ctx context.Context, o follow.Options, like Set) (Set, error) {
	out := Set{}
	for _, t := range xds.Types() {
		if t.DeltaOnly && !o.Delta {
			continue
		}
		var names []string
		for k := range like {
			if k.Type == t.URL {
				names = append(names, k.Name)
			}
		}
		if t.Wildcard {
			names = []string{"*"}
		}
		if len(names) == 0 {
			continue
		}
		list, err := follow.Get(ctx, o, t, names)
		if err != nil && !follow.OnlyMissing(err) {
			return nil, err //nolint:wrapcheck // it names the server
		}
		for i := range list {
			out[Key{"", xds.Key{Type: t.URL, Name: list[i].Name}}] = &list[i]
		}
	}
	return out, nil
}
