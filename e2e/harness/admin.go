//go:build interop

package harness

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Admin reads the administration pages of a proxy, Envoy's or Xebec's.
type Admin struct {
	// URL is where the pages are, without a slash at the end.
	URL string

	client *http.Client
}

// NewAdmin makes a reader whose connections end with the test.
func NewAdmin(t testing.TB) *Admin {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &Admin{client: &http.Client{Timeout: 10 * time.Second, Transport: transport}}
}

// ChooseAdmin makes a reader of pages on a free port, and the field of the
// bootstrap, as YAML's flow mappings have it, that puts them there.
func ChooseAdmin(t testing.TB) (a *Admin, field string) {
	t.Helper()
	a = NewAdmin(t)
	port := FreePort(t)
	a.URL = fmt.Sprintf("http://127.0.0.1:%d", port)
	return a, fmt.Sprintf("admin: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}", port)
}

// Page reads a page. A status other than 200 is an error, with the page in it.
func (a *Admin) Page(path string) (string, error) {
	resp, err := a.client.Get(a.URL + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

// Live is nil if the proxy says that it serves.
func (a *Admin) Live() error {
	state, err := a.Page("/ready")
	if err == nil && strings.TrimSpace(state) != "LIVE" {
		err = fmt.Errorf("/ready says %q", state)
	}
	return err
}

// Numbers reads counters and gauges; histograms have no single number. The
// query is that of /stats, such as "filter=" and a regular expression.
func (a *Admin) Numbers(query string) (map[string]int, error) {
	page, err := a.Page("/stats?" + query)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for line := range strings.Lines(page) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.Atoi(value); err == nil {
			out[name] = n
		}
	}
	return out, nil
}

// Stats reads the counters and gauges whose names match a regular expression.
// It ends the test if it cannot.
func (a *Admin) Stats(t testing.TB, filter string) map[string]int {
	t.Helper()
	out, err := a.Numbers("filter=" + filter)
	if err != nil {
		t.Fatalf("statistics: %v", err)
	}
	return out
}
