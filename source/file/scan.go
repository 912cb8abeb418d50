package file

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/xebec-proxy/xebec/internal/linktrace"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// scan is one look at the whole directory.
type scan struct {
	root string
	// files are the files to read, by path relative to the root, with slashes.
	files map[string]fs.FileInfo
	// unlisted are the folders that exist but could not be listed; what was
	// read below them is not gone.
	unlisted []string
	// dirs are the real paths of the folders in the tree, each with the
	// relative paths by which it is reached.
	dirs map[string][]string
	// targets are the real paths of files that are reached by symbolic links,
	// each with the relative paths of the links.
	targets map[string][]string
	// hops are the real paths of every symbolic link met on the way, and of
	// every missing entry one of them leads to. A change of one of them can
	// change anything.
	hops map[string]struct{}

	findings []validate.Finding
}

// lookAround lists the directory root. The error says that the root itself
// cannot be listed; the scan is valid even then, so that it can be watched for.
func lookAround(root string) (*scan, error) {
	s := &scan{
		root: root, files: map[string]fs.FileInfo{}, dirs: map[string][]string{},
		targets: map[string][]string{}, hops: map[string]struct{}{},
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return s, err
	}
	vol := filepath.VolumeName(abs) + string(filepath.Separator)
	place, hops := linktrace.Trace(vol, abs[len(vol):])
	s.addHops(hops)
	s.addHops([]string{place})
	info, err := os.Stat(root)
	if err != nil {
		return s, err
	}
	if !info.IsDir() {
		return s, &fs.PathError{Op: "open", Path: root, Err: errors.New("not a directory")}
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return s, err
	}
	s.walk(".", place, entries, []fs.FileInfo{info})
	return s, nil
}

// walk visits the entries of one folder. above holds the folders on the way
// down to it, itself included, by which loops of symbolic links are found.
func (s *scan) walk(rel, place string, entries []fs.DirEntry, above []fs.FileInfo) {
	s.dirs[place] = append(s.dirs[place], rel)
	for _, e := range entries {
		if !hidden(e.Name()) {
			s.entry(path.Join(rel, e.Name()), place, e, above)
		}
	}
}

func (s *scan) entry(rel, parent string, e fs.DirEntry, above []fs.FileInfo) {
	target := filepath.Join(parent, e.Name())
	linked := e.Type()&fs.ModeSymlink != 0
	if !linked && !e.IsDir() && !readable(e.Name()) {
		return
	}
	if linked {
		var hops []string
		target, hops = linktrace.Trace(parent, e.Name())
		s.addHops(hops)
	}
	info, err := os.Stat(s.path(rel))
	switch {
	case err != nil:
		s.unreadable(rel, linked, err)
	case info.IsDir():
		s.folder(rel, target, info, above)
	case info.Mode().IsRegular() && readable(e.Name()):
		s.files[rel] = info
		if linked {
			s.targets[target] = append(s.targets[target], rel)
		}
	}
}

func (s *scan) folder(rel, place string, info fs.FileInfo, above []fs.FileInfo) {
	for _, a := range above {
		if os.SameFile(a, info) {
			s.find(rel, validate.Warning, "link-loop", "the link leads back to a folder that it is in", "the link is not followed")
			return
		}
	}
	entries, err := os.ReadDir(s.path(rel))
	if err != nil {
		s.unreadable(rel, false, err)
		return
	}
	s.walk(rel, place, entries, append(slices.Clip(above), info))
}

// unreadable notes an entry that cannot be looked at. One that has just gone
// needs no mention.
func (s *scan) unreadable(rel string, linked bool, err error) {
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case missing && linked && readable(path.Base(rel)):
		s.find(rel, validate.Warning, "broken-link", "the link leads to nothing", "")
	case !missing:
		s.unlisted = append(s.unlisted, rel)
		s.find(rel, validate.Error, "unreadable", reason(err), "what was read before stays in use")
	}
}

func (s *scan) find(rel string, sev validate.Severity, code, msg, hint string) {
	s.findings = append(s.findings, validate.Finding{
		Severity: sev, Tier: validate.Schema, Code: code,
		Pos: xds.Position{File: s.path(rel)}, Message: msg, Hint: hint,
	})
}

func (s *scan) addHops(hops []string) {
	for _, h := range hops {
		s.hops[h] = struct{}{}
	}
}

func (s *scan) path(rel string) string { return filepath.Join(s.root, filepath.FromSlash(rel)) }

// watch lists the real paths of all folders in which something can happen that
// changes the scan.
func (s *scan) watch() map[string]struct{} {
	w := map[string]struct{}{}
	for d := range s.dirs {
		w[d] = struct{}{}
	}
	for h := range s.hops {
		w[filepath.Dir(h)] = struct{}{}
	}
	for t := range s.targets {
		w[filepath.Dir(t)] = struct{}{}
	}
	return w
}

// kept reports whether rel lies in a folder that could not be listed, or could
// not be looked at itself.
func (s *scan) kept(rel string) bool {
	for _, u := range s.unlisted {
		if (folder{path: u}).covers(rel) {
			return true
		}
	}
	return false
}

// reason is what an error of the file system says, without the path that the
// position shows already.
func reason(err error) string {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
