package export

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// markFile lists what a Writer has written, so that nothing else is ever removed.
const markFile = ".xebec-export"

// markHead is the first line of a markFile.
const markHead = "Written by xebec. The files listed here are replaced, and removed when their resources are gone."

// ErrForeign is wrapped by the error for a directory that holds something else than what
// was exported to it.
var ErrForeign = errors.New("the directory holds files that were not exported to it")

// Writer keeps one directory in step with a group. It is not safe for concurrent use,
// and no two may have one directory.
type Writer struct {
	dir string
	// owned are the files that were written, by now or before, with what was written
	// by this Writer; nil for those of another process.
	owned map[string]*file
}

// file is a file as it was written: what of.
type file struct {
	version   string // of a set
	resources []*xds.Resource
}

// New prepares a directory, which is made if it does not exist. One that holds something
// else than what a Writer has left there is refused with ErrForeign.
func New(dir string) (*Writer, error) {
	w := &Writer{dir: dir, owned: map[string]*file{}}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("the directory to export to cannot be made: %w", err)
	}
	mark, err := os.ReadFile(w.at(markFile))
	switch {
	case err == nil && strings.HasPrefix(string(mark), markHead+"\n"):
		for name := range strings.Lines(strings.TrimPrefix(string(mark), markHead+"\n")) {
			if name = strings.TrimSuffix(name, "\n"); filepath.IsLocal(name) && name != "" {
				w.owned[name] = nil
			}
		}
		return w, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the directory to export to cannot be read: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("the directory to export to cannot be read: %w", err)
	}
	if len(entries) > 0 {
		return nil, fmt.Errorf("%w: %s has %s; give a new one", ErrForeign, dir, entries[0].Name())
	}
	return w, w.mark()
}

// Modes of what is written: resources may hold keys, and clients may run as another user
// of the same group.
const (
	dirMode  = 0o750
	fileMode = 0o640
)

func (w *Writer) at(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

// Write brings the directory to what a snapshot has. Files whose content stays are not
// touched. The error joins those of all files; the others are written all the same, and
// the next Write tries again.
func (w *Writer) Write(s *snapshot.Snapshot) error {
	want := plan(s)
	var errs []error
	fresh := false
	for _, p := range want {
		if _, known := w.owned[p.name]; !known {
			w.owned[p.name], fresh = nil, true
		}
	}
	if fresh { // before there are files, lest nobody knows whose they are
		errs = append(errs, w.mark())
	}
	keep := make(map[string]struct{}, len(want))
	for _, p := range want {
		keep[p.name] = struct{}{}
		if err := w.put(p); err != nil {
			errs = append(errs, err)
		}
	}
	removed, err := w.removeBut(keep)
	if errs = append(errs, err); removed {
		errs = append(errs, w.mark())
	}
	return errors.Join(errs...)
}

// Clear removes everything that was exported, and the directory if that was all.
func (w *Writer) Clear() error {
	_, err := w.removeBut(nil)
	if err == nil {
		err = ignoreMissing(os.Remove(w.at(markFile)))
	}
	if err != nil {
		return err
	}
	_ = os.Remove(w.dir) // not if there is something else by now
	return nil
}

// put writes one file unless it is as it should be.
func (w *Writer) put(p planned) error {
	if f := w.owned[p.name]; f != nil && f.version == p.version && slices.Equal(f.resources, p.resources) {
		return nil
	}
	data, err := encode(p)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(w.at(p.name)); err != nil || !bytes.Equal(old, data) {
		if err := w.replace(p.name, data); err != nil {
			return err
		}
	}
	w.owned[p.name] = &file{p.version, p.resources}
	return nil
}

// replace moves a new file onto a path.
func (w *Writer) replace(name string, data []byte) (err error) {
	target := w.at(name)
	if err := os.MkdirAll(filepath.Dir(target), dirMode); err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(target), ".new-*") // hidden from who reads the directory
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("exporting %s: %w", name, err)
		}
	}()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(fileMode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), target)
}

// removeBut removes the files that were written and are not to be kept.
func (w *Writer) removeBut(keep map[string]struct{}) (some bool, err error) {
	var errs []error
	for name := range w.owned {
		if _, stays := keep[name]; stays {
			continue
		}
		if err := ignoreMissing(os.Remove(w.at(name))); err != nil {
			errs = append(errs, fmt.Errorf("exporting: %w", err))
			continue
		}
		if dir := path.Dir(name); dir != "." {
			_ = os.Remove(w.at(dir)) // if it is empty
		}
		delete(w.owned, name)
		some = true
	}
	return some, errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// mark notes which files are the Writer's.
func (w *Writer) mark() error {
	names := make([]string, 0, len(w.owned))
	for name := range w.owned {
		names = append(names, name)
	}
	slices.Sort(names)
	return w.replace(markFile, []byte(strings.Join(append([]string{markHead}, names...), "\n")+"\n"))
}
