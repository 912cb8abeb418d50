package stats

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
)

// Counter is the number of a counter in its registry. Zero is a counter that
// the stats matcher rejected: adding to it is allowed and has no effect.
type Counter uint32

// Gauge is the number of a gauge in its registry. Zero is a rejected gauge.
type Gauge uint32

// Histogram is the number of a histogram in its registry. Zero is a rejected
// histogram.
type Histogram uint32

// Text is a statistic whose value is a string. A nil *Text is one that the
// stats matcher rejected. Safe for concurrent use.
type Text struct{ value atomic.Pointer[string] }

// Set replaces the value.
func (t *Text) Set(v string) {
	if t != nil {
		t.value.Store(&v)
	}
}

// Unit says what the samples of a histogram measure; sinks that are told to
// scale use it.
type Unit uint8

// Units of histograms.
const (
	Unspecified Unit = iota
	Bytes
	Microseconds
	Milliseconds
)

// Registry holds the names of all statistics of a process and adds up their
// values. Safe for concurrent use.
type Registry struct {
	conf   settings
	main   *Main
	cache  orderCache
	labels labeller

	mu        sync.Mutex
	nodes     map[string]*node // by prefix
	ids       [kinds]numbers
	listed    [kinds]int        // names
	words     map[string]string // leaves that were registered one by one
	rejected  [kinds + 1]map[string]bool
	groups    map[reflect.Type][]*group
	texts     []*textMetric
	textIndex map[string]*textMetric
	shards    []*Shard
	retired   values          // of shards that closed
	base      pages[uint64]   // counters when they were last reset
	intervals pages[histView] // histograms of the last full interval
	lastMerge pages[histView] // histograms at the end of that interval
	freed     freeList
	discarded []Counter
	owners    map[string]*owner // by prefix
	leaving   []string          // prefixes whose last lease has ended
	sweeps    int               // how often names were taken away
}

type kind uint8

const (
	kindCounter kind = iota
	kindGauge
	kindHistogram
	kindText

	kinds = kindText // those with numbers
)

// textMetric is a readout, with a name of its own.
type textMetric struct {
	name metric
	text Text
	own  *owner // who registered it first, or nil
}

// New makes a registry that follows cfg
// (envoy.config.metrics.v3.StatsConfig); nil means all defaults. It fails on
// patterns that do not compile, on fixed or regex tags of no meaning and on
// histogram buckets that are not positive and unique.
func New(cfg *metricsv3.StatsConfig) (*Registry, error) {
	conf, err := newSettings(cfg)
	if err != nil {
		return nil, err
	}
	r := &Registry{
		conf: conf, labels: labeller{rules: conf.tags, known: newInterner()}, main: &Main{},
		nodes: make(map[string]*node), words: make(map[string]string), groups: make(map[reflect.Type][]*group),
		textIndex: make(map[string]*textMetric), owners: make(map[string]*owner),
	}
	for k := range r.ids {
		r.ids[k] = newNumbers()
	}
	return r, nil
}

// Main counts for goroutines that are not workers. All callers share it.
func (r *Registry) Main() *Main { return r.main }

// id returns the number of the statistic, registering it if it is new.
func (r *Registry) id(k kind, prefix, name string, unit Unit, own *owner) uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lookup(k, prefix, name, unit, own)
}

// lookup is id with r.mu held.
func (r *Registry) lookup(k kind, prefix, name string, unit Unit, own *owner) uint32 {
	var room [128]byte
	key, last := locate(room[:0], prefix, name)
	if n := r.nodes[string(key)]; n != nil {
		if id, ok := n.find(k, last); ok {
			b := r.ids[k].blocks[id>>pageBits]
			b.visit(guest{own: own, kind: k, i: id - b.first[k]})
			return id
		}
	}
	matched := r.conf.matcher.active()
	if matched && r.rejected[k][prefix+name] {
		return 0
	}
	if own != nil && own.gone {
		return r.ids[k].nameless()
	}
	if matched && r.rejects(k, prefix+name, own) {
		return 0
	}
	word, ok := r.words[last]
	if !ok {
		word = strings.Clone(last)
		r.words[word] = word
	}
	return r.one(r.node(key), k, leaf{name: word, unit: unit}, own)
}

// rejects asks the stats matcher, and remembers a no. r.mu is held.
func (r *Registry) rejects(k kind, name string, own *owner) bool {
	if !r.conf.matcher.rejects(name) {
		return false
	}
	if r.rejected[k] == nil {
		r.rejected[k] = make(map[string]bool)
	}
	r.rejected[k][name] = true
	own.missed(k, name)
	return true
}

func (r *Registry) text(name string, own *owner) *Text {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.textIndex[name]; t != nil {
		return &t.text
	}
	if own != nil && own.gone || r.rejected[kindText][name] || r.rejects(kindText, name, own) {
		return nil
	}
	// A block that no node has: its only leaf is the whole name.
	b := &block{node: &node{}}
	f := &family{}
	f.leaves[kindCounter] = []leaf{{name: name}}
	b.names.Store(f)
	t := &textMetric{name: metric{b: b}, own: own}
	r.texts = append(r.texts, t)
	r.textIndex[name] = t
	return &t.text
}

// NewShard makes the statistics of one worker. post runs a function on that
// worker and reports false once the worker has stopped; it is called from
// other goroutines and must not run the function itself. The owner calls
// [Shard.Close] on the worker as the last thing that counts.
func (r *Registry) NewShard(post func(func()) bool) *Shard {
	s := &Shard{reg: r, post: post, closed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.v.reach(len(r.ids[kindCounter].blocks), len(r.ids[kindGauge].blocks))
	r.shards = append(r.shards, s)
	return s
}

// retire takes over the values of a shard that closes.
func (r *Registry) retire(s *Shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired.add(&s.v)
	r.shards = slices.DeleteFunc(r.shards, func(x *Shard) bool { return x == s })
}

// String describes the registry for logs.
func (r *Registry) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d counters, %d gauges, %d histograms, %d text readouts, %d shards",
		r.listed[kindCounter], r.listed[kindGauge], r.listed[kindHistogram], len(r.texts), len(r.shards))
}
