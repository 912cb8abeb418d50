package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Get reads resources once, sorted by name. What came is returned even with an
// error, which joins what is wrong with the others. A collection is what the
// first response holds.
func Get(ctx context.Context, o Options, t xds.Type, names []string) ([]Resource, error) {
	s, err := o.source(ctx)
	if err != nil {
		return nil, err
	}
	g := &getting{t: t, found: map[string]Resource{}, wrong: map[string]error{}, waiting: map[string]bool{}, done: make(chan struct{})}
	for _, n := range names {
		g.waiting[n] = true
	}
	for _, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
		defer xdsclient.Watch(s, o.kind(t), n, g.watcher(n))()
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		err = fmt.Errorf("%s has not answered: %w", o.Server, context.Cause(ctx))
	}
	return g.result(errors.Join(err, s.Close()))
}

// getting is what has come so far. Its callbacks come one at a time, and its
// result is read when there are no more.
type getting struct {
	t       xds.Type
	found   map[string]Resource
	wrong   map[string]error
	waiting map[string]bool
	done    chan struct{}
}

func (g *getting) settle(name string) {
	if g.waiting[name] {
		if delete(g.waiting, name); len(g.waiting) == 0 {
			close(g.done)
		}
	}
}

// watcher is that of one name, which settles it: with the first answer for everything
// and for a glob, with all its members for a list collection.
func (g *getting) watcher(name string) xdsclient.Funcs[kept] {
	w := xdsclient.Funcs[kept]{Change: g.change, Error: g.fail, AmbientError: g.ambient}
	l, err := xds.ParseLocator(name)
	switch {
	case name == xdsclient.Wildcard, err == nil && l.URN.IsGlob():
		w.Response = func(xdsclient.Response) { g.settle(name) }
	case err == nil && l.IsList():
		w.Settled = func() { g.settle(name) }
	default:
		w.Change = func(u xdsclient.Update[kept]) {
			g.change(u)
			g.settle(name)
		}
	}
	return w
}

func (g *getting) change(u xdsclient.Update[kept]) {
	g.found[u.Name] = *NewResource(u.Name, u.Version, g.t.URL, u.Value.body)
	delete(g.wrong, u.Name)
}

func (g *getting) fail(name string, err error) {
	g.wrong[name] = err
	g.settle(name)
}

func (g *getting) ambient(name string, err error) {
	if err != nil {
		g.wrong[name] = err
	}
}

func (g *getting) result(err error) ([]Resource, error) {
	var out []Resource
	for _, r := range g.found {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Resource) int { return strings.Compare(a.Name, b.Name) })
	errs := []error{err}
	for _, e := range g.wrong {
		errs = append(errs, e)
	}
	slices.SortFunc(errs[1:], func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return out, errors.Join(errs...)
}

// OnlyMissing tells whether an error of Get says no more than that resources do
// not exist.
func OnlyMissing(err error) bool {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			if !OnlyMissing(e) {
				return false
			}
		}
		return true
	}
	return errors.Is(err, xdsclient.ErrMissing)
}
