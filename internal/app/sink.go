package app

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/xebec-proxy/xebec/internal/admin"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// sink hands batches to the server and keeps count of what became of them.
type sink struct {
	server *xdsserver.Server
	events *admin.Events
	log    *slog.Logger
	loaded func() // called once, after the first complete batch
	// exporter is told of each batch that was accepted; nil if nothing is exported.
	exporter *exporter

	applied, refused atomic.Uint64
	ready            atomic.Bool
}

// Apply implements source.Sink.
func (s *sink) Apply(b snapshot.Batch) error {
	if err := s.server.Apply(b); err != nil {
		s.refused.Add(1)
		s.events.Add("refused", err.Error())
		return err
	}
	s.applied.Add(1)
	s.exporter.note()
	if s.server.Loaded() && s.ready.CompareAndSwap(false, true) {
		s.log.Info("loaded", "resources", s.counts())
		s.events.Add("loaded", s.counts())
		s.loaded()
		return nil
	}
	set, removed := 0, 0
	for _, c := range b.Groups {
		set += len(c.Set)
		removed += len(c.Remove)
	}
	s.log.Info("changed", "set", set, "removed", removed, "resources", s.counts())
	s.events.Add("changed", fmt.Sprintf("%d set, %d removed", set, removed))
	return nil
}

// Reloads counts batches by what became of them.
func (s *sink) Reloads() (applied, refused uint64) { return s.applied.Load(), s.refused.Load() }

// counts says in words how many resources of each type are served; one that
// several groups share counts in each.
func (s *sink) counts() string {
	var parts []string
	for _, t := range xds.Types() {
		n := 0
		for _, g := range s.server.Groups() {
			if view := s.server.Snapshot(g); view != nil {
				n += view.Set(t.URL).Len()
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, t.Kind))
		}
	}
	text := "none"
	if len(parts) > 0 {
		text = strings.Join(parts, ", ")
	}
	if n := len(s.server.Groups()); n > 1 {
		text += fmt.Sprintf(" in %d groups", n)
	}
	return text
}
