// Package filtertest runs filters in tests: statistics by name, and streams
// without a network.
package filtertest

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/filter"
)

// Stats is a filter.Scope and a filter.Stats that keeps values by name. It is
// for one goroutine.
type Stats struct {
	names  []string
	Values map[string]int64
}

var (
	_ filter.Scope = (*Stats)(nil)
	_ filter.Stats = (*Stats)(nil)
)

// Counter implements filter.Scope.
func (s *Stats) Counter(name string) uint32 { return s.id(name) }

// Gauge implements filter.Scope.
func (s *Stats) Gauge(name string) uint32 { return s.id(name) }

// Histogram implements filter.Scope.
func (s *Stats) Histogram(name string) uint32 { return s.id(name) }

func (s *Stats) id(name string) uint32 {
	if i := slices.Index(s.names, name); i >= 0 {
		return uint32(i + 1) //nolint:gosec // a handful
	}
	s.names = append(s.names, name)
	return uint32(len(s.names)) //nolint:gosec // a handful
}

// Inc implements filter.Stats.
func (s *Stats) Inc(counter uint32) { s.add(counter, 1) }

// Add implements filter.Stats.
func (s *Stats) Add(counter uint32, n uint64) { s.add(counter, int64(n)) } //nolint:gosec // a handful

// GaugeAdd implements filter.Stats.
func (s *Stats) GaugeAdd(gauge uint32, n int64) { s.add(gauge, n) }

// Record implements filter.Stats; it counts the values.
func (s *Stats) Record(histogram uint32, _ uint64) { s.add(histogram, 1) }

func (s *Stats) add(id uint32, n int64) {
	if id == 0 {
		return
	}
	if s.Values == nil {
		s.Values = map[string]int64{}
	}
	s.Values[s.names[id-1]] += n
}

// String lists what is not 0: "name=value", by name, with blanks between.
func (s *Stats) String() string {
	var out []string
	for _, n := range slices.Sorted(maps.Keys(s.Values)) {
		if v := s.Values[n]; v != 0 {
			out = append(out, n+"="+strconv.FormatInt(v, 10))
		}
	}
	return strings.Join(out, " ")
}
