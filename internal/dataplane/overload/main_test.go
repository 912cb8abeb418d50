package overload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"testing"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// files are what monitors read.
type files struct {
	mu   sync.Mutex
	text map[string]string
}

func (f *files) put(name, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text[name] = text
}

func (f *files) read(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.text[name]; ok {
		return []byte(s), nil
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

// parts are the shortenings that texts of tests may use.
var parts = strings.NewReplacer(
	"@injected", `"@type": type.googleapis.com/envoy.extensions.resource_monitors.injected_resource.v3.InjectedResourceConfig`,
	"@cgroup", `"@type": type.googleapis.com/envoy.extensions.resource_monitors.cgroup_memory.v3.CgroupMemoryConfig`,
	"@heap", `"@type": type.googleapis.com/envoy.extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig`,
	"@connections", `"@type": type.googleapis.com/envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig`,
	"@scale", `"@type": type.googleapis.com/envoy.config.overload.v3.ScaleTimersOverloadActionConfig`,
	"@shrink", `"@type": type.googleapis.com/envoy.config.overload.v3.ShrinkHeapConfig`,
)

// parse reads an overload_manager in YAML.
func parse(t testing.TB, text string) *overloadv3.OverloadManager {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(parts.Replace(text)), &v); err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	m := &overloadv3.OverloadManager{}
	if err := protojson.Unmarshal(js, m); err != nil {
		t.Fatalf("%v in %s", err, js)
	}
	return m
}

// newEnv is what managers of tests are built with.
func newEnv(t testing.TB) (*Env, *files) {
	t.Helper()
	r, err := stats.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &files{text: map[string]string{}}
	return &Env{
		Stats: r, ReadFile: f.read, Integer: func(string) (uint64, bool) { return 0, false },
		Unpack: func(a *anypb.Any) (proto.Message, error) {
			if a == nil {
				return nil, errors.New("a typed_config is needed")
			}
			return a.UnmarshalNew()
		},
		Logger: slog.New(slog.DiscardHandler), Connections: NewConnections(),
	}, f
}

// counted are the statistics, in a line each.
func counted(t testing.TB, r *stats.Registry) []string {
	t.Helper()
	s, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := stats.Render(&b, s, stats.RenderOptions{}); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}
