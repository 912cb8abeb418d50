package accesslog_test

import (
	"io"
	"testing"

	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
)

type devNull struct{}

func (devNull) Write(b []byte) (int, error) { return len(b), nil }
func (devNull) Close() error                { return nil }

func nullLogs(tb testing.TB) (*accesslog.Files, accesslog.Logs) {
	files := closing(tb, accesslog.Options{FlushSize: 4 << 10, OpenFile: func(string) (io.WriteCloser, error) { return devNull{}, nil }})
	return files, build(tb, files, `{"name":"f","typed_config":{"@type":"`+fileURL+`","path":"/a"},"filter":{"or_filter":{"filters":[{"response_flag_filter":{}},
		{"and_filter":{"filters":[{"status_code_filter":{"comparison":{"op":"GE","value":{"default_value":100,"runtime_key":"x"}}}},{"not_health_check_filter":{}}]}}]}}}`)
}

// Proves AL-17: with its filter, its buffer and the writer behind it, a default
// line costs no allocation.
func TestAllocations(t *testing.T) {
	files, logs := nullLogs(t)
	w, c := files.NewWorker(nil), stream(":method", "GET", ":path", "/a/b", ":authority", "example.com", "user-agent", "test")
	if n := testing.AllocsPerRun(5000, func() { logs.Log(w, c) }); n != 0 {
		t.Errorf("%v allocations a line", n)
	}
	w.Flush()
}

func BenchmarkLog(b *testing.B) {
	files, logs := nullLogs(b)
	w, c := files.NewWorker(nil), stream(":method", "GET", ":path", "/a/b", ":authority", "example.com", "user-agent", "test")
	b.ReportAllocs()
	for b.Loop() {
		logs.Log(w, c)
	}
	w.Flush()
}
