package file

import (
	"fmt"
	"path"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
)

// Names with a meaning of their own.
const (
	// DefaultGroup is the group of every node when there is no groups.yaml.
	DefaultGroup = "default"
	// UnmatchedGroup is the empty group of the nodes that match no group of a
	// groups.yaml in which no group is the default.
	UnmatchedGroup = "unmatched"
	// GroupsFile is the name of the group file at the top of the directory.
	GroupsFile = "groups.yaml"
)

// groups is what a groups.yaml says. It is immutable and safe for concurrent
// use. A nil *groups is a directory without a groups.yaml.
type groups struct {
	list     []group
	fallback *group // the default group, or nil
}

// group is one entry of the list.
type group struct {
	name    string
	pos     xds.Position
	rules   []rule   // any of them; none only in the default group
	folders []folder // any of them
}

// folder is a directory or a file, relative to the root, with slashes.
type folder struct {
	path string
	pos  xds.Position
}

// names lists the groups that exist, in the order of the file.
func (g *groups) names() []string {
	if g == nil {
		return []string{DefaultGroup}
	}
	var l []string
	for i := range g.list {
		l = append(l, g.list[i].name)
	}
	if g.fallback == nil {
		l = append(l, UnmatchedGroup)
	}
	return l
}

// groupOf is the xds.GroupFunc of the file.
func (g *groups) groupOf(n *xds.Node) string {
	name, _ := g.find(n)
	return name
}

// find returns the group of a node, and the rule that chose it if one did.
func (g *groups) find(n *xds.Node) (string, *rule) {
	if g == nil {
		return DefaultGroup, nil
	}
	if n == nil {
		n = &xds.Node{}
	}
	for i := range g.list {
		for j := range g.list[i].rules {
			if r := &g.list[i].rules[j]; r.matches(n) {
				return g.list[i].name, r
			}
		}
	}
	if g.fallback != nil {
		return g.fallback.name, nil
	}
	return UnmatchedGroup, nil
}

// explain is groupOf with the reason in words.
func (g *groups) explain(n *xds.Node) (name, reason string) {
	name, r := g.find(n)
	switch {
	case g == nil:
		return name, "there is no " + GroupsFile + ", so every node is in one group"
	case r != nil:
		return name, fmt.Sprintf("it matches %s: %s", r.pos, r.describe(n))
	case n.Empty():
		reason = "the node says neither id, cluster nor metadata, and no group matches it"
	default:
		reason = "no group matches the node"
	}
	if g.fallback != nil {
		return name, fmt.Sprintf("%s; the default is set at %s", reason, g.fallback.pos)
	}
	return name, reason + " and no group is the default, so it receives nothing"
}

// of lists the groups that get the file at rel, a path with slashes relative
// to the root.
func (g *groups) of(rel string) []string {
	if g == nil {
		return []string{DefaultGroup}
	}
	var l []string
	for i := range g.list {
		for _, f := range g.list[i].folders {
			if f.covers(rel) {
				l = append(l, g.list[i].name)
				break
			}
		}
	}
	return l
}

func (f folder) covers(rel string) bool {
	return f.path == "." || rel == f.path || strings.HasPrefix(rel, f.path+"/")
}

// cleanFolder checks a folder as written and brings it into the form of
// folder.path.
func cleanFolder(s string) (string, error) {
	p := path.Clean(strings.ReplaceAll(s, `\`, "/"))
	switch {
	case s == "":
		return "", fmt.Errorf("the folder has no name; write %q for the whole directory", ".")
	case path.IsAbs(p):
		return "", fmt.Errorf("folder %q is absolute; folders are relative to the directory of %s", s, GroupsFile)
	case p == ".." || strings.HasPrefix(p, "../"):
		return "", fmt.Errorf("folder %q is outside the directory of %s; link it in with a symbolic link", s, GroupsFile)
	}
	return p, nil
}
