package layeredruntime_test

import (
	"errors"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
)

const layered = `{"layers": [
	{"name": "base", "static_layer": {"a": {"b": 1, "c": "text"}, "d": 1.5, "t": true, "both": "lower"}},
	{"name": "admin", "admin_layer": {}},
	{"name": "over", "static_layer": {"both": "upper"}}
]}`

func parsed(t *testing.T, text string) *layeredruntime.Snapshot {
	t.Helper()
	var m bootstrapv3.LayeredRuntime
	if err := protojson.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	s, err := layeredruntime.New(&m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What /runtime shows, and that later layers win over the admin layer.
func TestOverride(t *testing.T) {
	s := parsed(t, layered)
	over, err := s.Override(map[string]string{"a.b": "7", "new": "x", "both": "admin", "d": ""})
	if err != nil {
		t.Fatal(err)
	}
	want := []layeredruntime.Entry{
		{Key: "a.b", Final: "7", Layers: []string{"1", "7", ""}},
		{Key: "a.c", Final: "text", Layers: []string{"text", "", ""}},
		{Key: "both", Final: "upper", Layers: []string{"lower", "admin", "upper"}},
		{Key: "d", Final: "1.5", Layers: []string{"1.5", "", ""}},
		{Key: "new", Final: "x", Layers: []string{"", "x", ""}},
		{Key: "t", Final: "true", Layers: []string{"true", "", ""}},
	}
	if diff := cmp.Diff(want, over.Entries()); diff != "" {
		t.Error(diff)
	}
	if n, d := over.Percentage("a.b", nil); n != 7 || d != 100 || !over.Overridden() {
		t.Errorf("a.b is %d of %d, overridden %t", n, d, over.Overridden())
	}
	if n, _ := s.Percentage("a.b", nil); n != 1 || s.Overridden() {
		t.Errorf("the first snapshot has changed: a.b is %d, overridden %t", n, s.Overridden())
	}
	if back, err := over.Override(map[string]string{"a.b": "", "new": "", "both": ""}); err != nil || back.Overridden() {
		t.Errorf("after taking all out: overridden %t, error %v", back.Overridden(), err)
	}
}

// Proves BS-36: without an admin layer nothing can be changed.
func TestNoAdminLayer(t *testing.T) {
	for _, text := range []string{`{}`, `{"layers": [{"name": "s", "static_layer": {"a": 1}}]}`} {
		if _, err := parsed(t, text).Override(map[string]string{"a": "1"}); !errors.Is(err, layeredruntime.ErrNoAdminLayer) {
			t.Errorf("%s: error %v", text, err)
		}
	}
	if got := (*layeredruntime.Snapshot)(nil).Entries(); got != nil {
		t.Errorf("no snapshot has entries: %v", got)
	}
}
