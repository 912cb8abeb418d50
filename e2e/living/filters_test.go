//go:build interop

package living

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/xds"
)

// filters is a proxy with a filter and a runtime layer that are discovered, and
// one client with one connection to it.
type filters struct {
	t      *testing.T
	dir    *directory
	files  map[string][]byte
	proxy  *proxy
	url    string
	lost   string // of a listener whose filter does not come
	client *http.Client
	opened atomic.Int64
	failed error
	stop   chan struct{}
	done   chan struct{}
}

const extensionHeader = `"@type": type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig
name: flt
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.`

// Contents of the filter's file.
func faultFilter(status int) string {
	return extensionHeader + fmt.Sprintf("fault.v3.HTTPFault\n  abort: {http_status: %d, percentage: {numerator: 100}}\n", status)
}

func markFilter(value string) string {
	return extensionHeader + fmt.Sprintf("header_mutation.v3.HeaderMutation\n  mutations: {response_mutations: [{append: {header: {key: x-mark, value: %s}}}]}\n", value)
}

func shareOfNew(percent int) string {
	return fmt.Sprintf("\"@type\": type.googleapis.com/envoy.service.runtime.v3.Runtime\nname: layer\nlayer: {new.way: %d}\n", percent)
}

const filteredListener = `"@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: l
address: {socket_address: {address: 127.0.0.1, port_value: %d}}
filter_chains:
- filters:
  - name: hcm
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      stat_prefix: in
      route_config:
        name: own
        virtual_hosts:
        - name: all
          domains: ["*"]
          routes:
          - match: {prefix: /, runtime_fraction: {default_value: {numerator: 0}, runtime_key: new.way}}
            direct_response: {status: 200, body: {inline_string: new}}
          - match: {prefix: /}
            direct_response: {status: 200, body: {inline_string: old}}
      http_filters:
      - name: flt
        config_discovery:
          config_source: %s
          type_urls:
          - type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
          - type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
      - name: router
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`

// TestFiltersAndRuntime changes a filter and a runtime layer of a server's files
// under traffic over one connection. Envoy and the proxy do the same: they serve
// with what came last and was good, no request fails, and the listener stays.
// Partly proves BS-31, BS-38, XN-30.
func TestFiltersAndRuntime(t *testing.T) {
	t.Parallel()
	for _, v := range variants() {
		if v.files {
			continue
		}
		for name, start := range map[string]func(testing.TB, string) *proxy{"Envoy": startEnvoy, "Xebec": startXebec} {
			t.Run(v.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				f := beginFilters(t, v, start)
				f.becomes(f.url, "418 fault filter abort ")
				f.becomes(f.lost, "500  ")
				f.traffic()
				f.change("filter.yaml", faultFilter(503), "503 fault filter abort ")
				f.change("filter.yaml", markFilter("one"), "200 old one")
				f.change("runtime.yaml", shareOfNew(100), "200 new one")
				f.change("filter.yaml", markFilter("two"), "200 new two")
				f.put("filter.yaml", extensionHeader+"buffer.v3.Buffer\n  max_request_bytes: 5\n")
				f.counted("extension_config_discovery.http_filter.flt.config_fail", 1)
				f.becomes(f.url, "200 new two")
				f.change("runtime.yaml", shareOfNew(0), "200 old two")
				if v.wire == "delta" { // elsewhere a layer cannot be removed
					f.change("runtime.yaml", shareOfNew(100), "200 new two")
					f.remove("runtime.yaml")
					f.becomes(f.url, "200 old two")
					f.change("runtime.yaml", shareOfNew(100), "200 new two")
				}
				f.change("filter.yaml", faultFilter(418), "418 fault filter abort ")
				f.finish()
			})
		}
	}
}

// beginFilters starts a server and a proxy that is its client.
func beginFilters(t *testing.T, v variant, start func(testing.TB, string) *proxy) *filters {
	t.Helper()
	f := &filters{t: t, dir: newDirectory(t), files: map[string][]byte{}, stop: make(chan struct{}), done: make(chan struct{})}
	source := func(typeURL, name string) string {
		b, err := protojson.Marshal(v.source(f.dir.path, typeURL, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	port := harness.FreePort(t)
	f.url = fmt.Sprintf("http://127.0.0.1:%d/", port)
	f.files["listener.yaml"] = fmt.Appendf(nil, filteredListener, port, source(xds.ExtensionConfigType, "flt"))
	lost := harness.FreePort(t)
	f.lost = fmt.Sprintf("http://127.0.0.1:%d/", lost)
	late := v.source(f.dir.path, xds.ExtensionConfigType, "lost")
	late.InitialFetchTimeout = durationpb.New(time.Second)
	b, err := protojson.Marshal(late)
	if err != nil {
		t.Fatal(err)
	}
	f.files["lost.yaml"] = []byte(strings.NewReplacer("name: l\n", "name: lost\n", "name: flt", "name: lost", "stat_prefix: in", "stat_prefix: lost").
		Replace(fmt.Sprintf(filteredListener, lost, b)))
	f.files["filter.yaml"] = []byte(faultFilter(418))
	f.put("runtime.yaml", shareOfNew(0))
	s := newServer(t, f.dir.path)
	s.start(t)
	bootstrap := v.bootstrap(t, f.dir.path, s.xds) + fmt.Sprintf("layered_runtime: {layers: [{name: served, rtds_layer: {name: layer, rtds_config: %s}}]}\n", source(xds.RuntimeType, "layer"))
	f.proxy = start(t, bootstrap)
	f.proxy.live(t)
	tr := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(tr.CloseIdleConnections)
	f.client = &http.Client{Transport: tr, Timeout: 10 * time.Second}
	return f
}

func (f *filters) put(file, text string) {
	f.t.Helper()
	f.files[file] = []byte(text)
	for name, data := range f.files {
		if err := os.WriteFile(filepath.Join(f.dir.temp, name), data, 0o600); err != nil {
			f.t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(f.dir.temp, name), filepath.Join(f.dir.path, name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *filters) remove(file string) {
	f.t.Helper()
	delete(f.files, file)
	if err := os.Remove(filepath.Join(f.dir.path, file)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *filters) ask() (string, error) {
	q, err := http.NewRequestWithContext(httptrace.WithClientTrace(f.t.Context(), &httptrace.ClientTrace{
		ConnectDone: func(string, string, error) { f.opened.Add(1) },
	}), http.MethodGet, f.url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := f.client.Do(q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprintf("%d %s %s", resp.StatusCode, body, resp.Header.Get("X-Mark")), err
}

// traffic asks all the time, on the one connection, until finish.
func (f *filters) traffic() {
	f.t.Cleanup(func() {
		select {
		case <-f.stop:
		default:
			close(f.stop)
		}
		<-f.done
	})
	go func() {
		defer close(f.done)
		for {
			select {
			case <-f.stop:
				return
			case <-time.After(time.Millisecond):
			}
			got, err := f.ask()
			if err == nil && !strings.HasPrefix(got, "418 fault filter abort") && !strings.HasPrefix(got, "503 fault filter abort") && !strings.HasPrefix(got, "200 ") {
				err = fmt.Errorf("an answer of nobody: %s", got)
			}
			if err != nil {
				f.failed = err
				return
			}
		}
	}()
}

// change writes a file and waits until it is in force.
func (f *filters) change(file, text, want string) {
	f.t.Helper()
	f.put(file, text)
	f.becomes(f.url, want)
}

// becomes waits until new connections get an answer.
func (f *filters) becomes(url, want string) {
	f.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	harness.Eventually(f.t, 20*time.Second, want, func() error {
		resp, err := client.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if got := fmt.Sprintf("%d %s %s", resp.StatusCode, body, resp.Header.Get("X-Mark")); err == nil && got != want {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
}

// counted waits until a statistic has a value at least.
func (f *filters) counted(name string, least int) {
	f.t.Helper()
	harness.Eventually(f.t, 20*time.Second, name, func() error {
		n, err := f.proxy.Numbers("filter=" + name)
		if err == nil && n[name] < least {
			err = fmt.Errorf("it is %v", n)
		}
		return err
	})
}

// finish ends the traffic, of which nothing has failed, and looks at what was
// counted.
func (f *filters) finish() {
	f.t.Helper()
	close(f.stop)
	<-f.done
	if n := f.opened.Load(); f.failed != nil || n != 1 {
		f.t.Errorf("traffic over %d connections: %v", n, f.failed)
	}
	const prefix = "extension_config_discovery.http_filter.flt."
	got := f.proxy.Stats(f.t, "^("+prefix+"config_(reload|conflict)|listener_manager.listener_(added|modified)|runtime.(num_keys|num_layers|load_error))$")
	for name, want := range map[string]int{
		prefix + "config_reload": 5, prefix + "config_conflict": 0, "listener_manager.listener_added": 2, "listener_manager.listener_modified": 0,
		"runtime.num_keys": 1, "runtime.num_layers": 1, "runtime.load_error": 0,
	} {
		if got[name] != want {
			f.t.Errorf("%s is %d, want %d", name, got[name], want)
		}
	}
}
