package file

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/xebec-proxy/xebec/source"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// File is the state of one file; groups.yaml is one too, without resources.
type File struct {
	// Path begins with the directory as it was given.
	Path string
	// Loaded is when its present content was taken over; zero if it never was.
	Loaded time.Time
	// Resources is how many usable resources it offers, counting those that keep
	// an earlier version.
	Resources int
	// Groups are the groups that get it.
	Groups []string
	// Err joins what is wrong with it; nil if nothing is.
	Err error
}

// status is the state of a source for others to read; immutable.
type status struct {
	health   source.Health
	findings []validate.Finding
	files    *iradix.Tree[File] // by path below the directory
	groups   *groups
	// undecided says that there is a groups.yaml and none of its versions could
	// be read.
	undecided bool
}

// report publishes the state after something has happened.
func (s *Source) report(r *reload) {
	old := s.status.Load()
	n := &status{findings: r.findings(), groups: r.tree.groups, undecided: r.undecided()}
	n.files = r.states.update(r)
	n.health = source.Health{
		Loaded: old.health.Loaded || !r.good.IsZero(), LastGood: old.health.LastGood, LastAttempt: time.Now(),
		Err: r.err(n.findings),
	}
	if !r.good.IsZero() {
		n.health.LastGood = r.good
	}
	s.status.Store(n)
	if slices.Equal(old.findings, n.findings) {
		return
	}
	s.logFindings(old.findings, n.findings)
	s.opts.onFindings(n.findings)
}

// logFindings logs what is wrong since the last report.
func (s *Source) logFindings(old, now []validate.Finding) {
	known := make(map[validate.Finding]bool, len(old))
	for _, f := range old {
		known[f] = true
	}
	for _, f := range now {
		if known[f] {
			continue
		}
		log := s.opts.log.Warn
		if f.Severity == validate.Error {
			log = s.opts.log.Error
		}
		log(f.Message, "at", f.Pos.String(), "type", xds.Kind(f.Type), "resource", f.Name, "path", f.Path, "code", f.Code, "hint", f.Hint)
	}
}

// findings is everything that is wrong, by position.
func (r *reload) findings() []validate.Finding {
	var l []validate.Finding
	l = append(l, r.systemFindings()...)
	l = append(l, r.tree.findings()...)
	l = append(l, r.tree.groupFindings(r.scan, r.path)...)
	slices.SortStableFunc(l, func(a, b validate.Finding) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Column, b.Pos.Column), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(l)
}

// systemFindings are about the directory rather than its content.
func (r *reload) systemFindings() []validate.Finding {
	l := slices.Clone(r.scan.findings)
	add := func(sev validate.Severity, code, file, msg, hint string) {
		l = append(l, validate.Finding{
			Severity: sev, Tier: validate.Schema, Code: code, Pos: xds.Position{File: file}, Message: msg, Hint: hint,
		})
	}
	if r.rootErr != nil {
		add(validate.Error, "unreadable", r.root, reason(r.rootErr), "what was read before stays in use")
	} else if len(r.tree.files)+len(r.pending)+len(r.failed) == 0 {
		add(validate.Warning, "empty", r.root, "there is no resource file in the directory", "files end in .yaml, .yml, .json, .pb_text or .pb")
	}
	for _, rel := range slices.Sorted(maps.Keys(r.failed)) {
		add(validate.Error, "unreadable", r.path(rel), reason(r.failed[rel]), "what was read before stays in use")
	}
	if r.watch.err != nil {
		add(validate.Warning, "not-watched", r.root, "the system does not announce changes: "+r.watch.err.Error(),
			"changes are found by the regular listing; on Linux, raise fs.inotify.max_user_watches or max_user_instances")
	}
	return l
}

// findings are those of the files' contents, of names used twice, and of
// references.
func (t *tree) findings() []validate.Finding {
	var l []validate.Finding
	if t.groupsFile != nil {
		l = append(l, t.groupsFile.findings...)
	}
	for _, f := range t.flawed {
		l = append(l, f.findings...)
	}
	if t.undecided() {
		return l
	}
	for _, v := range t.views {
		for _, fs := range v.twice {
			l = append(l, fs...)
		}
		l = append(l, v.references(t.groups != nil)...)
	}
	return l
}

// groupFindings are about what groups.yaml says of folders that are not there,
// and about files that no group gets.
func (t *tree) groupFindings(s *scan, path func(string) string) []validate.Finding {
	if t.groups == nil {
		return nil
	}
	var l []validate.Finding
	warn := func(code string, pos xds.Position, msg, hint string) {
		l = append(l, validate.Finding{
			Severity: validate.Warning, Tier: validate.Schema, Code: code, Pos: pos, Message: msg, Hint: hint,
		})
	}
	for _, g := range t.groups.list {
		for _, f := range g.folders {
			if !s.has(f) {
				warn("missing-folder", f.pos, fmt.Sprintf("there is no folder %q", f.path), "folders are relative to the directory of "+GroupsFile)
			}
		}
	}
	for rel, f := range t.files {
		if len(f.groups) == 0 {
			warn("unassigned", xds.Position{File: path(rel)}, "no group gets this file", "name its folder in "+GroupsFile+", or remove it")
		}
	}
	return l
}

// has reports whether a folder is there, even if nothing is in it.
func (s *scan) has(f folder) bool {
	for _, rels := range s.dirs {
		if slices.Contains(rels, f.path) {
			return true
		}
	}
	_, isFile := s.files[f.path]
	return isFile || s.kept(f.path)
}

func (r *reload) path(rel string) string { return filepath.Join(r.root, filepath.FromSlash(rel)) }

// err joins everything that keeps the state from being what the files say.
func (r *reload) err(findings []validate.Finding) error {
	return errors.Join(joinErrors(findings), r.sinkErr)
}

// joinErrors joins the findings that are errors; nil if none is.
func joinErrors(findings []validate.Finding) error {
	var errs []error
	for _, f := range findings {
		if f.Severity == validate.Error {
			errs = append(errs, &xds.ResourceError{Type: f.Type, Name: f.Name, Path: f.Path, Pos: f.Pos, Err: errors.New(f.Message)})
		}
	}
	return errors.Join(errs...)
}
