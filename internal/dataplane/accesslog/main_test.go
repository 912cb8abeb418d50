package accesslog_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// disk is a file system whose writes can be stopped or made to fail.
type disk struct {
	mu     sync.Mutex
	opened map[string][]*diskFile
	fail   error // of opening
	broken error // of writing
	gate   chan struct{}
}

type diskFile struct {
	d      *disk
	b      bytes.Buffer
	writes int
	closed bool
}

func (d *disk) open(path string) (io.WriteCloser, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return nil, d.fail
	}
	if d.opened == nil {
		d.opened = map[string][]*diskFile{}
	}
	f := &diskFile{d: d}
	d.opened[path] = append(d.opened[path], f)
	return f, nil
}

func (d *disk) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// text is what the n-th opening of a path has got.
func (d *disk) text(path string, n int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opened[path][n].b.String()
}

func (f *diskFile) Write(b []byte) (int, error) {
	f.d.mu.Lock()
	gate := f.d.gate
	f.d.mu.Unlock()
	if gate != nil {
		<-gate
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return 0, errors.New("closed")
	}
	if f.d.broken != nil {
		return 0, f.d.broken
	}
	f.writes++
	return f.b.Write(b)
}

func (f *diskFile) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.closed = true
	return nil
}

// counts adds up statistics.
type counts struct {
	mu sync.Mutex
	n  map[accesslog.Stat]int64
}

func (c *counts) Add(s accesslog.Stat, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[accesslog.Stat]int64{}
	}
	c.n[s] += n
}

func (c *counts) get(s accesslog.Stat) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[s]
}

const (
	fileURL   = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog"
	streamURL = "type.googleapis.com/envoy.extensions.access_loggers.stream.v3."
)

// parse reads an AccessLog from JSON.
func parse(t testing.TB, text string) *accesslogv3.AccessLog {
	t.Helper()
	var a accesslogv3.AccessLog
	if err := protojson.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &a
}

// toFile is a log with a text format.
func toFile(path, text string) string {
	return fmt.Sprintf(`{"name":"f","typed_config":{"@type":%q,"path":%q,"log_format":{"text_format_source":{"inline_string":%q}}}}`, fileURL, path, text)
}

func build(t testing.TB, files *accesslog.Files, configs ...string) accesslog.Logs {
	t.Helper()
	list := make([]*accesslogv3.AccessLog, len(configs))
	for i, c := range configs {
		list[i] = parse(t, c)
	}
	logs, err := accesslog.New(list, accesslog.Env{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	return logs
}

// closing closes files at the end of a test.
func closing(t testing.TB, o accesslog.Options) *accesslog.Files {
	f := accesslog.NewFiles(o)
	t.Cleanup(func() {
		if err := f.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return f
}

// stream is a finished request.
func stream(req ...string) *format.Context {
	var m header.Map
	for i := 0; i < len(req); i += 2 {
		m.Add(req[i], req[i+1])
	}
	info := &filter.StreamInfo{StartTime: time.Date(2026, 11, 21, 17, 35, 33, 741e6, time.UTC), ResponseCode: 200, Protocol: filter.HTTP11}
	info.Timing.Reset(0)
	info.Timing.End = 3 * time.Millisecond
	return &format.Context{Req: &m, Resp: &header.Map{}, Info: info, LogType: "DownstreamEnd"}
}
