package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// changing is the suite of a proxy whose configuration changes under load. The
// suffixes of a proxy's name are for when it does not, and for when that of another
// proxy does: then what the changes cost the machine is there, but not the proxy.
const (
	changing  = "changes"
	still     = "-still"
	elsewhere = "-elsewhere"
)

const (
	// changesPerSecond is how often a resource changes.
	changesPerSecond = 100
	// liveRate is how many requests a second there are meanwhile.
	liveRate = 10_000
	// liveTables is how many listeners there are, and route tables, assignments and
	// clusters.
	liveTables = 20
	// arrival is how long the last change may take to be in force.
	arrival = 10 * time.Second
)

// live is a proxy with its management server.
type live struct {
	*instance
	source    *source
	admin     netip.AddrPort
	listeners []netip.AddrPort
	changes   int // so far
}

// livePrograms are those that can follow a management server.
func livePrograms(found []program) []program {
	return slices.DeleteFunc(slices.Clone(found), func(p program) bool { return p.name != xebec && p.name != envoy })
}

// launchLive starts a source of changes in the background of the load's core and a
// proxy that follows it by delta ADS, in the background as well if it is aside.
func (m *machine) launchLive(ctx context.Context, p program, aside bool) (*live, error) {
	free, err := freeAddresses(liveTables + 2)
	if err != nil {
		return nil, err
	}
	l := &live{listeners: free[:liveTables], admin: free[liveTables]}
	xds := free[liveTables+1]
	dir, err := os.MkdirTemp(m.dir, "live-")
	if err != nil {
		return nil, err
	}
	if l.source, err = m.startSource(xds, l.listeners); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "bootstrap.yaml")
	if err := errors.Join(l.source.ready(ctx, xds), os.WriteFile(config, []byte(liveBootstrap(l.admin, xds)), 0o600)); err != nil {
		l.stop()
		return nil, err
	}
	l.instance = &instance{cores: []int{m.proxyCore}, dir: dir, listen: addresses{H1: l.listeners[0]}}
	begin := func() (err error) {
		l.process, err = start(p.name, l.cores, p.path, p.args(config, 1)...)
		return err
	}
	if aside {
		l.cores = []int{m.loadCore}
		err = inBackground(l.cores, begin)
	} else {
		err = begin()
	}
	if err == nil {
		err = l.ready(ctx, l.listeners...)
	}
	if err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

// stop ends the proxy, if it was started, and its source.
func (l *live) stop() {
	if l.instance != nil && l.process != nil {
		l.process.stop()
	}
	l.source.stop()
}

// arrived waits until the last change of each kind is in force, by the proxy's
// own account.
func (l *live) arrived(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, arrival)
	defer cancel()
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for {
		missing, err := l.missing(ctx)
		if err == nil && missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s is not in force after %s", missing, arrival), err)
		case <-poll.C:
		}
	}
}

// missing is one of the last changes that the proxy's dump does not show.
func (l *live) missing(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.admin.String()+"/config_dump?include_eds", nil)
	if err != nil {
		return "the configuration", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "the configuration", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return "the configuration", err
	}
	for n := max(1, l.changes-2); n <= l.changes; n++ {
		if mark := fmt.Sprintf("%q", mark(n)); !strings.Contains(string(b), mark) {
			return mark, nil
		}
	}
	return "", nil
}

// changes measures, round by round, each proxy while nothing changes and while
// much does.
func (r *runner) changes(ctx context.Context) error {
	found := livePrograms(r.found)
	if err := moveTo([]int{r.loadCore}); err != nil {
		return err
	}
	var running []*live
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		for _, l := range running {
			l.stop()
		}
	}()
	begin := func(p program, aside bool) (*live, error) {
		l, err := r.launchLive(ctx, p, aside)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", changing, p.name, err)
		}
		running = append(running, l)
		return l, nil
	}
	var takes []take
	for _, p := range found {
		l, err := begin(p, false)
		if err != nil {
			return err
		}
		takes = append(takes, take{p.name + still, l, nil}, take{p.name, l, l})
		if p.name != xebec {
			continue
		}
		other, err := begin(p, true)
		if err != nil {
			return err
		}
		takes = append(takes, take{p.name + elsewhere, l, other})
	}
	var errs error
	for round := 1; round <= r.pace.rounds; round++ {
		for _, t := range takes {
			v, err := r.takeLive(ctx, t.loaded, t.changed)
			if err != nil {
				errs = errors.Join(errs, fmt.Errorf("%s: %s: %w", changing, t.name, err))
				continue
			}
			line := raw.Line{Suite: changing, Round: round, Proxy: t.name, Values: v}
			fmt.Fprintln(r.record, line)
			r.lines = append(r.lines, line)
		}
	}
	return errs
}

// take is a measurement of a proxy under load while the configuration of one changes.
type take struct {
	name    string
	loaded  *live
	changed *live // nil if nothing changes
}

// takeLive drives the load, and changes a proxy's configuration meanwhile unless
// that is nil.
func (r *runner) takeLive(ctx context.Context, l, changed *live) (raw.Values, error) {
	pids, err := l.pids()
	if err != nil {
		return nil, err
	}
	if err := r.quiet(ctx); err != nil {
		return nil, err
	}
	if changed != nil {
		if err := changed.source.begin(r.pace.time + r.pace.warm); err != nil {
			return nil, err
		}
	}
	begun, made := time.Now(), 0
	drive := suite{listen: overH1, args: []string{"-rate", fmt.Sprint(liveRate), "-sleep", "-connections", "64"}}
	v, err := r.byEngine(ctx, drive, l.instance, pids)
	took := time.Since(begun)
	if changed != nil {
		before, bad := changed.changes, error(nil)
		changed.changes, bad = changed.source.end()
		made, err = changed.changes-before, errors.Join(err, bad)
	}
	if err != nil {
		return nil, err
	}
	v["changes"] = float64(int(float64(made)/took.Seconds()*10)) / 10
	if changed != nil {
		err = changed.arrived(ctx)
	}
	return v, err
}
