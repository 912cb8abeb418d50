package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/source"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// Source is a directory of resource files (XF-08). All methods are safe for
// concurrent use.
type Source struct {
	dir     string
	opts    options
	running atomic.Bool
	status  atomic.Pointer[status]
}

var _ source.Source = (*Source)(nil)

// New returns the source of a directory, which must exist. It starts nothing.
// Positions in findings and resources begin with dir as it is given.
func New(dir string, opts ...Option) (*Source, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	s := &Source{dir: dir, opts: newOptions(opts)}
	s.status.Store(&status{})
	return s, nil
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case dir == "":
		return errors.New("no directory of resource files is given")
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory of resource files %s does not exist; create it or name another one: %w", dir, err)
	case err != nil:
		return fmt.Errorf("the directory of resource files cannot be used: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is a file; name the directory that holds the resource files", dir)
	}
	return nil
}

// Run delivers the directory's resources until the context ends, and then
// returns nil. It returns an error if the directory is not there at the
// beginning, or if Run is going on already. It may be called again after it
// has returned, and then begins with a full batch.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("the source is running already")
	}
	defer s.running.Store(false)
	r := newReload(s, sink, newWatcher())
	defer r.watch.close()
	now := time.Now()
	if r.lookAround(now); r.rootErr != nil {
		return dirError(r.rootErr)
	}
	r.window.begin(now)
	s.loop(ctx, r)
	return nil
}

func (s *Source) loop(ctx context.Context, r *reload) {
	rescan := time.NewTicker(s.opts.rescan)
	defer rescan.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		news := true
		select {
		case <-ctx.Done():
			return
		case e := <-r.watch.events():
			r.event(time.Now(), e)
			news = false
		case err := <-r.watch.errors():
			s.opts.log.Warn("notifications were lost, listing the directory", "dir", s.dir, "error", err)
			r.changedSomewhere(time.Now())
		case <-rescan.C:
			r.rescan(time.Now())
		case <-timer.C:
			r.drain(time.Now()) // what has come in the meantime may belong to it
			news = r.attempt(time.Now())
		}
		if news {
			s.report(r)
		}
		if due, waiting := r.window.due(); waiting {
			timer.Reset(time.Until(due))
		} else {
			timer.Stop()
		}
	}
}

// Health is the present state. Its error joins everything that is not as the
// directory says: findings that keep something from being served, a directory
// that cannot be read, a batch that the sink refused.
func (s *Source) Health() source.Health { return s.status.Load().health }

// Findings is everything that is wrong at present, by position. Read-only.
func (s *Source) Findings() []validate.Finding { return s.status.Load().findings }

// Files is the state of every file, by path. The cost is that of their number.
func (s *Source) Files() []File { return listed(s.status.Load().files) }

// Explain says which group a node is in and why (XS-36).
func (s *Source) Explain(n *xds.Node) (group, reason string) {
	st := s.status.Load()
	if st.undecided {
		return UnmatchedGroup, GroupsFile + " cannot be read, so nothing is served"
	}
	return st.groups.explain(n)
}

// Groups lists the groups, in the order in which they are tried.
func (s *Source) Groups() []string { return s.status.Load().groups.names() }

func (s *Source) examiner() *examiner {
	return &examiner{path: s.path, parse: s.opts.parse, quiet: s.opts.quiet, max: s.opts.max}
}

func (s *Source) path(rel string) string { return filepath.Join(s.dir, filepath.FromSlash(rel)) }

func dirError(err error) error {
	return fmt.Errorf("the directory of resource files cannot be listed: %w", err)
}
