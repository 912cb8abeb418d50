package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// recorder is a sink that keeps what it accepts.
type recorder struct {
	news chan struct{} // holds a token after each call of Apply

	mu      sync.Mutex
	groups  map[string]*snapshot.Snapshot
	groupOf xds.GroupFunc
	batches []snapshot.Batch
	refuse  error
}

func newRecorder() *recorder {
	return &recorder{news: make(chan struct{}, 1), groups: map[string]*snapshot.Snapshot{}}
}

func (r *recorder) Apply(b snapshot.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		select {
		case r.news <- struct{}{}:
		default:
		}
	}()
	if r.refuse != nil {
		return r.refuse
	}
	next := maps.Clone(r.groups)
	if b.Full {
		next = map[string]*snapshot.Snapshot{}
	}
	for name, c := range b.Groups {
		s := r.groups[name]
		if s == nil {
			s = snapshot.New()
		}
		if b.Full {
			c.Replace = true
		}
		s, _, err := s.With(c)
		if err != nil {
			return err
		}
		next[name] = s
	}
	r.groups = next
	if b.GroupOf != nil {
		r.groupOf = b.GroupOf
	}
	r.batches = append(r.batches, b)
	return nil
}

// state is what a sink holds, by group: "Kind/name=version" lines.
func (r *recorder) state() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string][]string{}
	for name, s := range r.groups {
		out[name] = []string{}
		for _, t := range s.TypeURLs() {
			for _, res := range s.Set(t).All() {
				out[name] = append(out[name], xds.Kind(t)+"/"+res.Name()+"="+res.Version())
			}
		}
		slices.Sort(out[name])
	}
	return out
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.batches)
}

func (r *recorder) since(n int) []snapshot.Batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.batches[n:])
}

func (r *recorder) setRefuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = err
}

// get is a resource that a group of the sink holds; nil if it does not.
func (r *recorder) get(group, typeURL, name string) *xds.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.groups[group]; s != nil {
		return s.Set(typeURL).Get(name)
	}
	return nil
}

// names lists the resources of a group, as "Kind/name", sorted.
func (r *recorder) names(group string) []string {
	var l []string
	for _, s := range r.state()[group] {
		l = append(l, s[:strings.LastIndexByte(s, '=')])
	}
	slices.Sort(l)
	return l
}

// live is a running source with its directory and sink.
type live struct {
	*recorder
	t    *testing.T
	dir  string
	src  *Source
	stop func()
}

// start runs a source on the directory until the test ends, and waits for the
// first batch.
func start(t *testing.T, dir string, opts ...Option) *live {
	t.Helper()
	l := begin(t, dir, opts...)
	l.until("the first batch", func() bool { return l.count() > 0 })
	return l
}

// begin runs a source without waiting for anything.
func begin(t *testing.T, dir string, opts ...Option) *live {
	t.Helper()
	rec := newRecorder()
	s, err := New(dir, append([]Option{WithRescan(time.Hour)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, rec) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(stop)
	return &live{recorder: rec, t: t, dir: dir, src: s, stop: stop}
}

// until waits for a condition on the sink, looking again at each batch.
func (l *live) until(what string, ok func() bool) {
	l.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !ok() {
		select {
		case <-l.news:
		case <-deadline.C:
			l.t.Fatalf("%.200s did not come; the sink holds %.2000s, the findings are %v", what, fmt.Sprint(l.state()), l.src.Findings())
		}
	}
}

// untilHolds waits until a group holds exactly these resources.
func (l *live) untilHolds(group string, names ...string) {
	l.t.Helper()
	slices.Sort(names)
	l.until(fmt.Sprint(names), func() bool { return slices.Equal(l.names(group), names) })
}

// untilTimeout waits until a cluster of a group has this connect timeout.
func (l *live) untilTimeout(group, name string, want time.Duration) {
	l.t.Helper()
	l.until(name+" with "+want.String(), func() bool { return timeoutOf(l.get(group, xds.ClusterType, name)) == want })
}

// eventually waits for what the source says of itself, which it does after the
// sink has the batch.
func (l *live) eventually(what string, ok func() bool) {
	l.t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			l.t.Fatalf("%s did not come; the findings are %v", what, l.src.Findings())
		}
		time.Sleep(time.Millisecond)
	}
}

// untilFindings waits for a state of the findings.
func (l *live) untilFindings(what string, ok func([]validate.Finding) bool) {
	l.t.Helper()
	l.eventually("findings: "+what, func() bool { return ok(l.src.Findings()) })
}

func hasCode(code string) func([]validate.Finding) bool {
	return func(l []validate.Finding) bool {
		return slices.ContainsFunc(l, func(f validate.Finding) bool { return f.Code == code })
	}
}

func noErrors(l []validate.Finding) bool {
	return !slices.ContainsFunc(l, func(f validate.Finding) bool { return f.Severity == validate.Error })
}

// path is a file of the directory.
func (l *live) path(rel string) string { return filepath.Join(l.dir, filepath.FromSlash(rel)) }

func (l *live) write(rel, content string) { l.t.Helper(); write(l.t, l.dir, rel, content) }

// write puts a file in its place in one step, as careful programs do.
func write(t testing.TB, dir, rel, content string) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(rel))
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	tmp := filepath.Join(filepath.Dir(p), ".tmp-"+filepath.Base(p))
	must(t, os.WriteFile(tmp, []byte(content), 0o644))
	must(t, os.Rename(tmp, p))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// cluster is the YAML of a cluster whose connect timeout tells its versions
// apart.
func cluster(name string, seconds int) string {
	return fmt.Sprintf("\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\nname: %s\ntype: STATIC\nconnect_timeout: %ds\n", name, seconds)
}

// docs puts several documents into one file.
func docs(d ...string) string { return strings.Join(d, "---\n") }

var errRefused = errors.New("refused")
