package file

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"
)

// racy is how long after a file was written another write may leave size and
// time as they are, on file systems with coarse clocks.
const racy = 2 * time.Second

// pending is a path that may have changed.
type pending struct {
	last time.Time // of its last change
	// told says that something announced the change, so that the bytes are read
	// even if size and time are the same.
	told bool
	// sum and content are of the last look, if it was put off.
	sum     digest
	content *content
}

// outcome is what a look at a pending path led to.
type outcome int

const (
	same       outcome = iota // nothing that matters has changed
	changed                   // there is new content
	gone                      // the file is not there any more
	failed                    // the file cannot be read; err says why
	unfinished                // it may be in the middle of a change
)

// look is the result of examining one path.
type look struct {
	outcome outcome
	file    *loaded // of same (nil if never read) and changed
	content *content
	data    []byte // of groups.yaml
	err     error
}

// examiner looks at pending paths. It changes nothing but the pending it is
// given, so several paths can be examined at once.
type examiner struct {
	path       func(rel string) string
	parse      parser
	quiet, max time.Duration
}

// examine looks at one path. before is its last state, nil if it is new.
func (e *examiner) examine(rel string, p *pending, before *loaded, now time.Time) look {
	info, err := os.Stat(e.path(rel)) // first, because opening a pipe would block
	switch {
	case err != nil:
		return e.missing(p, before, now, err)
	case !info.Mode().IsRegular():
		return e.missing(p, before, now, fs.ErrNotExist)
	case before != nil && !p.told && sameStat(before, info):
		return look{outcome: same}
	}
	f, err := os.Open(e.path(rel))
	if err != nil {
		return e.missing(p, before, now, err)
	}
	defer func() { _ = f.Close() }()
	if e.beingWritten(f, p, now) {
		return look{outcome: unfinished}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return look{outcome: failed, err: err}
	}
	if after, err := f.Stat(); err != nil || !after.ModTime().Equal(info.ModTime()) || after.Size() != int64(len(data)) || !os.SameFile(after, info) {
		return look{outcome: unfinished}
	}
	n := &loaded{rel: rel, info: info, read: now, at: now, sum: digest{xxhash.Sum64(data), len(data)}}
	if before != nil && before.sum == n.sum {
		return look{outcome: same, file: n}
	}
	return e.content(n, p, data, now)
}

// content parses the bytes, and puts off what may be only a part of them.
func (e *examiner) content(n *loaded, p *pending, data []byte, now time.Time) look {
	fresh := now.Before(p.last.Add(e.quiet))
	if fresh && len(bytes.TrimSpace(data)) == 0 {
		return look{outcome: unfinished}
	}
	if n.rel == GroupsFile {
		if g, _ := parseGroups("", data); g == nil && fresh {
			return look{outcome: unfinished}
		}
		return look{outcome: changed, file: n, data: data}
	}
	if p.content == nil || p.sum != n.sum {
		c := e.parse(e.path(n.rel), data, n.info.ModTime())
		p.content, p.sum = &c, n.sum
	}
	if fresh && p.content.partial {
		return look{outcome: unfinished}
	}
	return look{outcome: changed, file: n, content: p.content}
}

// missing is the outcome for a file that could not be opened.
func (e *examiner) missing(p *pending, before *loaded, now time.Time, err error) look {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return look{outcome: failed, err: err}
	case before == nil:
		return look{outcome: same}
	case now.Before(p.last.Add(e.quiet)):
		return look{outcome: unfinished} // an editor may be about to put the new one in its place
	}
	return look{outcome: gone}
}

// beingWritten reports whether to wait for a writer: as long as the file is
// open for writing, if the system tells, but not longer than max after the
// last write; else until it has not been written to for quiet.
func (e *examiner) beingWritten(f *os.File, p *pending, now time.Time) bool {
	busy, known := openForWriting(f)
	if known {
		return busy && now.Before(p.last.Add(e.max))
	}
	return now.Before(p.last.Add(e.quiet))
}

// sameStat reports whether a file is certainly the one that was read.
func sameStat(before *loaded, info fs.FileInfo) bool {
	return before.info != nil && os.SameFile(before.info, info) && before.info.Size() == info.Size() &&
		before.info.ModTime().Equal(info.ModTime()) && before.read.Sub(info.ModTime()) > racy
}
