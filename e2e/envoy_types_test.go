//go:build interop

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// extension is the configuration of a filter that adds a response header.
func extension(value string) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig
name: header
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
  mutations:
    response_mutations:
    - append: {header: {key: x-extension, value: %s}}
`, value)
}

// extensionFilter is an HTTP filter that fetches its configuration.
func extensionFilter(source string) string {
	return fmt.Sprintf(`{name: header, config_discovery: {config_source: %s,
      type_urls: [type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation]}}`, source)
}

// TestEnvoyIsServedExtensions has Envoy fetch the configuration of a filter. On
// aggregated streams the filter and its configuration can go in one edit.
// Partly proves XS-66, XS-74.
func TestEnvoyIsServedExtensions(t *testing.T) {
	forEachVariant(t, func(t *testing.T, v variant) {
		s := newScene(t, v)
		filtered := listenerFor(httpName, s.port, connectionManager(httpName, rds(s.source), extensionFilter(s.source)))
		s.write(t, "extension.yaml", extension("one"))
		s.write(t, "listeners.yaml", filtered)
		s.header(t, "x-extension", "one")
		s.write(t, "extension.yaml", extension("two"))
		s.header(t, "x-extension", "two")
		if v.aggregated {
			s.remove(t, "extension.yaml")
			s.write(t, "listeners.yaml", listener(s.port, s.source), extension("three"))
			s.header(t, "x-extension", "")
			l := startLoad(t, s.url)
			s.write(t, "listeners.yaml", filtered, extension("four"))
			s.header(t, "x-extension", "four")
			s.write(t, "listeners.yaml", listener(s.port, s.source))
			s.header(t, "x-extension", "")
			l.goOn(t, 50) // on connections that still have the filter
			l.stop(t)
		}
		if n := s.rejected(t); n != 0 {
			t.Errorf("Envoy rejected %d updates", n)
		}
	})
}

// header waits until answers have a header with a value; none if it is empty.
func (s *scene) header(t *testing.T, name, value string) {
	t.Helper()
	client := newClient(t, nil)
	harness.Eventually(t, 10*time.Second, fmt.Sprintf("header %s: %q", name, value), func() error {
		defer client.CloseIdleConnections()
		status, header, _, err := s.request(t, client, "localhost", nil)
		if err != nil {
			return err
		}
		if got := header.Get(name); status != http.StatusOK || got != value {
			return fmt.Errorf("status %d, %q", status, got)
		}
		return nil
	})
}

// request asks Envoy's listener for a host.
func (s *scene) request(t *testing.T, client *http.Client, host string, header http.Header) (int, http.Header, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return 0, nil, "", err
	}
	req.Host = host
	maps.Copy(req.Header, header)
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(body), err
}

// TestEnvoyIsServedRuntime has Envoy fetch a runtime layer.
func TestEnvoyIsServedRuntime(t *testing.T) {
	runtime := func(value int) string {
		return fmt.Sprintf(`"@type": type.googleapis.com/envoy.service.runtime.v3.Runtime
name: layer
layer: {e2e.number: %d}
`, value)
	}
	forEachVariant(t, func(t *testing.T, v variant) {
		s := startServer(t)
		s.write(t, "runtime.yaml", runtime(1))
		e := startEnvoy(t, s.envoyBootstrap(t, v, nodeID), fmt.Sprintf(
			"layered_runtime: {layers: [{name: served, rtds_layer: {name: layer, rtds_config: %s}}]}", v.source()))
		e.ready(t)
		for value := 1; value <= 3; value++ {
			s.write(t, "runtime.yaml", runtime(value))
			want := fmt.Sprintf(`"final_value": "%d"`, value)
			harness.Eventually(t, 5*time.Second, "runtime with "+want, func() error {
				page, err := e.Page("/runtime")
				if err == nil && !strings.Contains(page, want) {
					err = fmt.Errorf("it is %s", page)
				}
				return err
			})
		}
	})
}

// TestEnvoyIsServedScopedRoutes has Envoy choose a route table by a header.
func TestEnvoyIsServedScopedRoutes(t *testing.T) {
	scope := func(name, table string) string {
		return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration
name: scope-%[1]s
route_configuration_name: %[2]s
key: {fragments: [{string_key: %[1]s}]}
`, name, table)
	}
	table := func(name, cluster string) string {
		return strings.Replace(routes(cluster), "name: "+routeName, "name: "+name, 1)
	}
	forEachVariant(t, func(t *testing.T, v variant) {
		s := newScene(t, v)
		s.write(t, "clusters-blue.yaml", cluster("blue", s.source, connectTimeout), endpoints("blue", s.b))
		s.write(t, "scopes.yaml", scope("one", "to-red"), scope("two", "to-blue"))
		s.write(t, "tables.yaml", table("to-red", "red"), table("to-blue", "blue"))
		s.write(t, "listeners.yaml", listenerFor(httpName, s.port, connectionManager(httpName, fmt.Sprintf(`scoped_routes: {
      name: scopes,
      scope_key_builder: {fragments: [{header_value_extractor: {name: x-tenant, index: 0}}]},
      rds_config_source: %[1]s,
      scoped_rds: {scoped_rds_config_source: %[1]s}}`, s.source))))
		s.tenant(t, "one", "a")
		s.tenant(t, "two", "b")
		// Envoy's subscription to table to-red is a new one after this, though a
		// subscription by that name was there before.
		s.write(t, "scopes.yaml", scope("one", "to-blue"), scope("three", "to-red"))
		s.tenant(t, "one", "b")
		s.tenant(t, "three", "a")
		s.tenant(t, "two", "")
	})
}

// tenant waits until requests of a tenant are answered by a backend, or not
// found if that is empty.
func (s *scene) tenant(t *testing.T, name, backend string) {
	t.Helper()
	client := newClient(t, nil)
	harness.Eventually(t, 10*time.Second, fmt.Sprintf("tenant %s at %q", name, backend), func() error {
		status, _, body, err := s.request(t, client, "localhost", http.Header{"X-Tenant": {name}})
		if err != nil {
			return err
		}
		if backend == "" && status == http.StatusNotFound || backend != "" && status == http.StatusOK && body == backend {
			return nil
		}
		return fmt.Errorf("status %d: %s", status, body)
	})
}
