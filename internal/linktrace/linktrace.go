// Package linktrace follows symbolic links one by one, so that whoever watches a
// file can watch all the places at which the path to it can change.
package linktrace

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// MaxLinks bounds how many symbolic links one path is followed through, as
// operating systems do.
const MaxLinks = 40

// Trace resolves rest, a path relative to the real path start, one component
// at a time. It returns the real path it leads to, as far as it exists, and
// the real paths of the links on the way, with the first missing component.
func Trace(start, rest string) (at string, hops []string) {
	const sep = string(filepath.Separator)
	todo, at := strings.Split(rest, sep), start
	for links := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if err != nil {
			return next, append(hops, next)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		hops = append(hops, next)
		to, err := os.Readlink(next)
		if links++; err != nil || links > MaxLinks {
			return next, hops
		}
		if filepath.IsAbs(to) {
			at = filepath.VolumeName(to) + sep
			to = to[len(at):]
		}
		todo = append(strings.Split(filepath.FromSlash(to), sep), todo...)
	}
	return at, hops
}

// Path is Trace for a path of the system, from the root of its volume.
func Path(path string) (at string, hops []string, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, fmt.Errorf("following links: %w", err)
	}
	vol := filepath.VolumeName(abs) + string(filepath.Separator)
	at, hops = Trace(vol, abs[len(vol):])
	return at, hops, nil
}
