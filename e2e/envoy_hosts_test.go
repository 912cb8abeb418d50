//go:build interop

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

const onDemand = `{name: envoy.filters.http.on_demand, typed_config: {
      "@type": type.googleapis.com/envoy.extensions.filters.http.on_demand.v3.OnDemand}}`

// TestEnvoyIsServedVirtualHostsOnDemand has an Envoy whose route configuration
// lists one virtual host itself ask for the others when requests name their
// hosts: it is answered by domain, is told of hosts that do not exist, gets what
// changes, and goes on with what it has when the route configuration changes.
// Partly proves XN-21, XN-22, XN-23, XN-24, XN-25.
func TestEnvoyIsServedVirtualHostsOnDemand(t *testing.T) {
	for _, v := range variants() {
		if v.wire != "delta" {
			continue // the protocol has it in delta only
		}
		t.Run(v.name, func(t *testing.T) {
			s := setScene(t, v)
			s.write(t, "clusters.yaml", cluster("red", s.source, connectTimeout), endpoints("red", s.a),
				cluster("blue", s.source, connectTimeout), endpoints("blue", s.b))
			s.write(t, "routes.yaml", routesWithHosts(s.source, "static.example"))
			s.write(t, "hosts/web.yaml", virtualHost("web", "red", "web.example", "*.web.example"))
			s.write(t, "hosts/other.yaml", virtualHost("other", "red", "other.example"))
			s.write(t, "listeners.yaml", listenerFor(httpName, s.port, connectionManager(httpName, rds(s.source), onDemand)))
			started := time.Now()
			s.envoy = startEnvoy(t, s.envoyBootstrap(t, v, nodeID))
			s.envoy.ready(t)
			s.hosted(t, "static.example", http.StatusOK, "a")
			if took := time.Since(started); took > 10*time.Second {
				t.Errorf("Envoy listened after %v: it has waited for virtual hosts that nobody has asked for", took)
			}
			s.hosted(t, "a.web.example", http.StatusOK, "a")
			s.hosted(t, "web.example", http.StatusOK, "a")
			s.hosted(t, "unknown.example", http.StatusNotFound, "")

			// What it has is updated; what it has asked for in vain is sent when it is there.
			s.write(t, "hosts/web.yaml", virtualHost("web", "blue", "web.example", "*.web.example"))
			s.hosted(t, "web.example", http.StatusOK, "b")
			s.write(t, "hosts/late.yaml", virtualHost("late", "red", "unknown.example"))
			s.hosted(t, "unknown.example", http.StatusOK, "a")

			// A new route configuration: the hosts stay.
			s.write(t, "routes.yaml", routesWithHosts(s.source, "static.example", "new.example"))
			s.hosted(t, "new.example", http.StatusOK, "a")
			s.hosted(t, "web.example", http.StatusOK, "b")
			s.hosted(t, "unknown.example", http.StatusOK, "a")

			// One of a better match, and one that goes.
			s.write(t, "hosts/better.yaml", virtualHost("better", "red", "a.web.example"))
			s.hosted(t, "a.web.example", http.StatusOK, "a")
			s.hosted(t, "web.example", http.StatusOK, "b")
			s.remove(t, "hosts/late.yaml")
			s.hosted(t, "unknown.example", http.StatusNotFound, "")
			if n := s.rejected(t); n != 0 {
				t.Errorf("Envoy has rejected %d updates", n)
			}
		})
	}
}

// routesWithHosts is a route configuration that leads some hosts to red, and
// has the others on demand.
func routesWithHosts(source string, hosts ...string) string {
	text := fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: %s
vhds: {config_source: %s}
virtual_hosts:
`, routeName, source)
	for _, h := range hosts {
		text += fmt.Sprintf("- {name: %s, domains: [%s], routes: [{match: {prefix: /}, route: {cluster: red}}]}\n", h, h)
	}
	return text
}

// virtualHost is one of them.
func virtualHost(name, cluster string, domains ...string) string {
	return fmt.Sprintf(`"@type": type.googleapis.com/envoy.config.route.v3.VirtualHost
name: %s/%s
domains: ['%s']
routes: [{match: {prefix: /}, route: {cluster: %s}}]
`, routeName, name, strings.Join(domains, "', '"), cluster)
}

// hosted waits until a request for a host is answered as it should be.
func (s *scene) hosted(t *testing.T, host string, status int, backend string) {
	t.Helper()
	client := newClient(t, nil)
	harness.Eventually(t, 12*time.Second, fmt.Sprintf("host %s: %d %s", host, status, backend), func() error {
		got, _, body, err := s.request(t, client, host, nil)
		if err == nil && (got != status || backend != "" && body != backend) {
			err = fmt.Errorf("status %d: %s", got, body)
		}
		return err
	})
}
