package file

import (
	"time"

	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// content is what the bytes of one file declare.
type content struct {
	// good holds the resources that can be served, in the order of the file;
	// broken the keys and places of those that are named but cannot be.
	good   []*xds.Resource
	broken []broken
	// partial says that something could not be read so far that its name is
	// known, so that nobody can say which resources the file declares.
	partial  bool
	findings []validate.Finding
}

// broken is a resource that is declared but cannot be served.
type broken struct {
	key xds.Key
	pos xds.Position
}

// parser reads the bytes of a file. It is pure and called concurrently.
// updated is when the content came to be.
type parser func(name string, data []byte, updated time.Time) content

// claim is what one file says about one resource. It is immutable.
type claim struct {
	key xds.Key
	rel string
	pos xds.Position
	// res is the resource, or its last good version if stale is set; nil if it
	// never was good.
	res   *xds.Resource
	stale bool
}

// claims turns a file's content into its claims, given those it had before.
// Equal resources keep their old object. The findings are those of names that
// are used twice.
func (c content) claims(rel string, before map[xds.Key]*claim) (map[xds.Key]*claim, []validate.Finding) {
	if c.partial && len(before) > 0 {
		return stale(before), nil
	}
	after := make(map[xds.Key]*claim, len(c.good)+len(c.broken))
	var twice []validate.Finding
	for _, r := range c.good {
		n := &claim{key: r.Key(), rel: rel, pos: r.Origin(), res: r}
		old := before[n.key]
		known := old != nil && r.Equal(old.res)
		if known {
			n.res = old.res
		}
		if first, dup := after[n.key]; dup {
			if known && !r.Equal(first.res) {
				first, n = n, first // the one that was loaded before stays
				after[n.key] = first
			}
			twice = append(twice, duplicate(first, n, ""))
			continue
		}
		after[n.key] = n
	}
	for _, b := range c.broken {
		if _, dup := after[b.key]; dup {
			continue
		}
		n := &claim{key: b.key, rel: rel, pos: b.pos, stale: true}
		if old := before[b.key]; old != nil {
			n.res = old.res
		}
		after[b.key] = n
	}
	return after, twice
}

// stale marks every claim as the last good state of a file that cannot be read.
func stale(before map[xds.Key]*claim) map[xds.Key]*claim {
	after := make(map[xds.Key]*claim, len(before))
	for k, c := range before {
		n := *c
		n.stale = true
		after[k] = &n
	}
	return after
}

// duplicate is the finding of two claims on one name, of which used is served.
func duplicate(used, ignored *claim, group string) validate.Finding {
	msg := "the name is already used at " + used.pos.String() + ", which is the one served"
	if group != "" && group != DefaultGroup {
		msg += " in group " + group
	}
	return validate.Finding{
		Severity: validate.Error, Tier: validate.Schema, Code: "duplicate",
		Type: ignored.key.Type, Name: ignored.key.Name, Pos: ignored.pos,
		Message: msg, Hint: "rename or remove one of them",
	}
}
