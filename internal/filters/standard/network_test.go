package standard_test

import (
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	directresponsev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/direct_response/v3"
	echov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
	"github.com/xebec-proxy/xebec/internal/filters/standard"
)

func network(t *testing.T, cfg proto.Message) (filter.NetworkFactory, error) {
	t.Helper()
	var r filter.Registry
	if err := standard.Register(&r); err != nil {
		t.Fatal(err)
	}
	k, ok := r.Network(string(cfg.ProtoReflect().Descriptor().FullName()))
	if !ok || !k.Terminal {
		t.Fatalf("%T is registered %t, terminal %t", cfg, ok, k.Terminal)
	}
	return k.New(cfg, &filter.Env{
		ReadFile: func(name string) ([]byte, error) {
			if name != "there" {
				return nil, errors.New("no such file")
			}
			return []byte("from a file"), nil
		},
		Getenv: func(name string) (string, bool) { return "from " + name, name == "VAR" },
	})
}

// Proves NF-11.
func TestEcho(t *testing.T) {
	f, err := network(t, &echov3.Echo{})
	if err != nil {
		t.Fatal(err)
	}
	var c filtertest.Connection
	e := f(&c).Read
	if e.OnNewConnection() != filter.NetworkContinue {
		t.Error("the connection does not go on")
	}
	var b filter.Buffer
	b.Append([]byte("hello"))
	e.OnData(&b, false)
	if c.Sent != "hello" || c.Ended || b.Len() != 0 {
		t.Errorf("sent %q, ended %t, left %q", c.Sent, c.Ended, b.Bytes())
	}
	w, ok := e.(filter.ConnectionWatcher)
	if !ok {
		t.Fatal("echo does not heed the client's pace")
	}
	w.OnAboveHighWatermark()
	w.OnAboveHighWatermark()
	if c.Disabled != 1 {
		t.Errorf("reading is disabled %d times", c.Disabled)
	}
	w.OnBelowLowWatermark()
	e.OnData(&b, true)
	if !c.Ended || c.Disabled != 0 {
		t.Errorf("ended %t, disabled %d", c.Ended, c.Disabled)
	}
}

func TestDirectResponse(t *testing.T) {
	tests := []struct{ name, want, fault string }{
		{name: "nothing"},
		{name: "inline", want: "canned"},
		{name: "bytes", want: "\x00\x01"},
		{name: "file", want: "from a file"},
		{name: "environment", want: "from VAR"},
		{name: "no file", fault: `response.filename: unable to read "gone": no such file`},
		{name: "no variable", fault: "Environment variable doesn't exist: GONE"},
		{name: "no source", fault: "response.specifier: set filename"},
	}
	sources := map[string]*corev3.DataSource{
		"inline":      {Specifier: &corev3.DataSource_InlineString{InlineString: "canned"}},
		"bytes":       {Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte{0, 1}}},
		"file":        {Specifier: &corev3.DataSource_Filename{Filename: "there"}},
		"environment": {Specifier: &corev3.DataSource_EnvironmentVariable{EnvironmentVariable: "VAR"}},
		"no file":     {Specifier: &corev3.DataSource_Filename{Filename: "gone"}},
		"no variable": {Specifier: &corev3.DataSource_EnvironmentVariable{EnvironmentVariable: "GONE"}},
		"no source":   {},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := network(t, &directresponsev3.Config{Response: sources[tt.name]})
			if tt.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fault) {
					t.Errorf("error %v, want %q", err, tt.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var c filtertest.Connection
			if f(&c).Read.OnNewConnection() != filter.NetworkStop {
				t.Error("it goes on")
			}
			if c.Sent != tt.want || !c.IsClosed || c.Closed != filter.FlushWrite {
				t.Errorf("sent %q, closed %t %d", c.Sent, c.IsClosed, c.Closed)
			}
			if c.Info().Details != "direct_response" {
				t.Errorf("details %q", c.Info().Details)
			}
		})
	}
}
