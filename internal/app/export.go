package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/xebec-proxy/xebec/internal/admin"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source/export"
)

// served is what the exporter needs of the server.
type served interface {
	Groups() []string
	Snapshot(group string) *snapshot.Snapshot
}

// exporter keeps a folder for each group in step with what the group is served.
type exporter struct {
	dir    string
	server served
	log    *slog.Logger
	events *admin.Events
	// changed holds one: there is something to be looked at.
	changed chan struct{}
	retry   time.Duration

	// Of run.
	writers map[string]*export.Writer
	swept   bool
	problem string
}

const exportRetry = 10 * time.Second

// newExporter makes the directory.
func newExporter(dir string, server served, log *slog.Logger, events *admin.Events) (*exporter, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("the directory of --export-dir cannot be made: %w", err)
	}
	return &exporter{
		dir: dir, server: server, log: log, events: events, changed: make(chan struct{}, 1), retry: exportRetry,
		writers: map[string]*export.Writer{},
	}, nil
}

// note says that what is served may have changed. It does not wait; a nil exporter does
// nothing.
func (e *exporter) note() {
	if e == nil {
		return
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// run writes after each change until the context ends, and tries again what has failed.
func (e *exporter) run(ctx context.Context) error {
	retry := time.NewTimer(e.retry)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-e.changed:
		case <-retry.C:
		}
		err := e.write()
		e.report(err)
		if err != nil {
			retry.Reset(e.retry)
		}
	}
}

// report says what is wrong, once.
func (e *exporter) report(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == e.problem:
	case err != nil:
		e.log.Error("what is served cannot be exported", "dir", e.dir, "error", err, "retry_in", e.retry)
		e.events.Add("export failed", text)
	default:
		e.log.Info("what is served is exported again", "dir", e.dir)
	}
	e.problem = text
}

// write brings every group's folder up to date, and removes those of groups that are no
// more, also of a former run.
func (e *exporter) write() error {
	var errs []error
	present := map[string]bool{}
	for _, g := range e.server.Groups() {
		view := e.server.Snapshot(g)
		if view == nil {
			continue
		}
		folder := export.Folder(g)
		present[folder] = true
		w, err := e.writer(folder)
		if err == nil {
			err = w.Write(view)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("group %s: %w", g, err))
		}
	}
	if !e.swept {
		entries, err := os.ReadDir(e.dir)
		errs = append(errs, err)
		for _, entry := range entries {
			if entry.IsDir() && !present[entry.Name()] {
				_, _ = e.writer(entry.Name()) // what is not ours is refused, and stays
			}
		}
		e.swept = err == nil
	}
	for folder, w := range e.writers {
		if present[folder] {
			continue
		}
		if err := w.Clear(); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(e.writers, folder)
	}
	return errors.Join(errs...)
}

func (e *exporter) writer(folder string) (*export.Writer, error) {
	if w := e.writers[folder]; w != nil {
		return w, nil
	}
	w, err := export.New(filepath.Join(e.dir, folder))
	if err == nil {
		e.writers[folder] = w
	}
	return w, err
}

// apart reports that one of two directories is in the other, so that what is exported
// would be served again.
func apart(dir, exported string) error {
	a, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	b, err := filepath.Abs(exported)
	if err != nil {
		return err
	}
	for _, pair := range [][2]string{{a, b}, {b, a}} {
		if rel, err := filepath.Rel(pair[0], pair[1]); err == nil && filepath.IsLocal(rel) {
			return fmt.Errorf("--export-dir %s and --dir %s must not be one in the other", exported, dir)
		}
	}
	return nil
}
