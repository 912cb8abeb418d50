package accesslog_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
)

// Proves AL-02: only a path gives Envoy's default line.
func TestDefaultLine(t *testing.T) {
	var d disk
	files := closing(t, accesslog.Options{OpenFile: d.open})
	logs := build(t, files, fmt.Sprintf(`{"typed_config":{"@type":%q,"path":"/a"}}`, fileURL), fmt.Sprintf(`{"typed_config":{"@type":%q,"path":"/b","format":""}}`, fileURL))
	w := files.NewWorker(nil)
	c := stream(":method", "GET", ":path", "/p?q", ":authority", "127.0.0.1:18785", "user-agent", "curl/7.88.1", "x-request-id", "92fbc3a6")
	logs.Log(w, c)
	w.Flush()
	flush(t, files)
	const want = `[2026-11-21T17:35:33.741Z] "GET /p?q HTTP/1.1" 200 - 0 0 3 - "-" "curl/7.88.1" "92fbc3a6" "127.0.0.1:18785" "-"` + "\n"
	if got := d.text("/a", 0); got != want {
		t.Errorf("%s", got)
	}
	if got := d.text("/b", 0); got != want {
		t.Errorf("an empty format gives %s", got)
	}
}

// Proves AL-03: the forms that a file's format may have.
func TestFormats(t *testing.T) {
	for form, want := range map[string]string{
		`"format":"%DURATION% %REQ(x-none)%\n"`: "3 -\n",
		`"json_format":{"a":"%DURATION%","b":"%REQ(x-none)%","z":"y%REQ(x-none)%","c":{"d":"%RESPONSE_CODE%"}}`: `{"a":3,"b":null,"c":{"d":200},"z":"y-"}` + "\n",
		`"typed_json_format":{"a":"%DURATION%","b":"%REQ(x-none)%"}`:                                            `{"a":3,"b":null}` + "\n",
		`"log_format":{"text_format":"%DURATION%"}`:                                                             "3",
		`"log_format":{"text_format":""}`:                                                                       "",
		`"log_format":{"omit_empty_values":true,"json_format":{"a":"%DURATION%","b":"%REQ(x-none)%"},"json_format_options":{"sort_properties":true}}`: `{"a":3}` + "\n",
		`"log_format":{"text_format_source":{"environment_variable":"F"}}`:                                                                            "env HTTP/1.1",
		`"log_format":{"text_format_source":{"filename":"/f"}}`:                                                                                       "/f 3",
		`"log_format":{"text_format_source":{"inline_string":"%ENVIRONMENT(F)%"}}`:                                                                    "env %PROTOCOL%",
	} {
		var d disk
		files := accesslog.NewFiles(accesslog.Options{OpenFile: d.open})
		logs, err := accesslog.New([]*accesslogv3.AccessLog{parse(t, fmt.Sprintf(`{"typed_config":{"@type":%q,"path":"/a",%s}}`, fileURL, form))}, accesslog.Env{
			Files:    files,
			Getenv:   func(n string) (string, bool) { return "env %PROTOCOL%", n == "F" },
			ReadFile: func(n string) ([]byte, error) { return []byte(n + " %DURATION%"), nil },
		})
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		w := files.NewWorker(nil)
		logs.Log(w, stream())
		w.Flush()
		if err := files.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := d.text("/a", 0); got != want {
			t.Errorf("%s: %q, want %q", form, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for cfg, want := range map[string]string{
		`{"name":"x"}`: "access_log[0].typed_config: Didn't find a registered implementation for 'x' with type URL: ''",
		`{"name":"x","typed_config":{"@type":"type.googleapis.com/google.protobuf.Empty","value":{}}}`: "access_log[0].typed_config: Didn't find a registered implementation for 'x' with type URL: 'type.googleapis.com/google.protobuf.Empty'",
		`{"typed_config":{"@type":"` + fileURL + `"}}`:                                                 "access_log[0].typed_config: path: a path is needed",
		toFile("/a", "%FOO%"): "access_log[0].typed_config: log_format: Not supported field in StreamInfo: FOO",
		`{"typed_config":{"@type":"` + fileURL + `","path":"/a","format":"%"}}`:                                 "access_log[0].typed_config: log_format: Incorrect configuration: %. Couldn't find valid command at position 0",
		`{"typed_config":{"@type":"` + fileURL + `","path":"/a","json_format":{"a":"%A%"}}}`:                    "access_log[0].typed_config: json_format: Not supported field in StreamInfo: A",
		`{"typed_config":{"@type":"` + fileURL + `","path":"/a","log_format":{}}}`:                              "access_log[0].typed_config: log_format: no format is given",
		`{"typed_config":{"@type":"` + streamURL + `StdoutAccessLog","log_format":{}}}`:                         "access_log[0].typed_config: log_format: no format is given",
		`{"typed_config":{"@type":"` + streamURL + `StderrAccessLog","log_format":{"text_format":"%CEL(a)%"}}}`: "access_log[0].typed_config: log_format: the operator %CEL% is not built",
		toFile("/no/such/dir/a", "x"): "access_log[0].typed_config: unable to open file '/no/such/dir/a': No such file or directory",
	} {
		files := closing(t, accesslog.Options{})
		if _, err := accesslog.New([]*accesslogv3.AccessLog{parse(t, cfg)}, accesslog.Env{Files: files}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", cfg, err, want)
		}
	}
	// All errors are told at once.
	files := closing(t, accesslog.Options{})
	_, err := accesslog.New([]*accesslogv3.AccessLog{parse(t, `{"name":"x"}`), parse(t, `{"name":"y"}`)}, accesslog.Env{Files: files})
	if err == nil || !regexp.MustCompile(`(?s)access_log\[0\].*access_log\[1\]`).MatchString(err.Error()) {
		t.Error(err)
	}
}

func TestStatNames(t *testing.T) {
	want := "write_buffered write_completed write_failed flushed_by_timer reopen_failed write_total_buffered lines_dropped"
	var got []string
	for _, s := range accesslog.Stats() {
		got = append(got, s.Name())
	}
	if strings.Join(got, " ") != want {
		t.Errorf("%v", got)
	}
}
