package proxy_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
)

// Proves HK-09: an endpoint's health_check_config says where and by which name it is
// checked, or that it is not; the check's own tls_options and
// transport_socket_match_criteria say through what, whatever the endpoint's
// metadata choose for requests.
func TestChecksAsEndpointsSay(t *testing.T) {
	cert, key := certificates(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	must(t, err)
	seen := make(chan string, 1000)
	secure := backend(t, func(w *wire, _ int) {
		c := tls.Server(w, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"odd", "http/1.1"}})
		w = newWire(t, c)
		for h := w.head(); h != ""; h = w.head() {
			_, host, _ := strings.Cut(h, "host: ")
			host, _, _ = strings.Cut(host, "\r\n")
			s := c.ConnectionState()
			select {
			case seen <- fmt.Sprint(host, " ", s.ServerName, " ", s.NegotiatedProtocol):
			default:
			}
			w.send(ok)
		}
	})
	const socket = `transport_socket: {name: tls, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: %s.test}}`
	entry := func(name string) string {
		return "{name: " + name + ", match: {k: " + name + "}, " + fmt.Sprintf(socket, name) + "}"
	}
	_, port, err := net.SplitHostPort(secure)
	must(t, err)
	const own = "address: {socket_address: {address: 127.0.0.1, port_value: 1}}"
	for _, tt := range []struct{ name, conf, check, want string }{
		{"its metadata", "port_value: " + port, "", "c a.test http/1.1"},
		{"criteria", "port_value: " + port, "transport_socket_match_criteria: {k: b},", "c b.test http/1.1"},
		{"criteria of none", "port_value: " + port, "transport_socket_match_criteria: {k: d},", "c own.test http/1.1"},
		{"ALPN", "port_value: " + port, "transport_socket_match_criteria: {k: b}, tls_options: {alpn_protocols: [odd]},", "c b.test odd"},
		{"hostname", "port_value: " + port + ", hostname: named", "", "named a.test http/1.1"},
		{"address", "address: {socket_address: {address: 127.0.0.1, port_value: " + port + "}}", "", "c a.test http/1.1"},
		{"nobody", "disable_active_health_check: true", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for len(seen) > 0 {
				<-seen
			}
			r := start(t, bootstrapOf("", `  - name: c
    `+fmt.Sprintf(socket, "own")+`
    transport_socket_matches: [`+entry("a")+", "+entry("b")+`]
    health_checks: [{`+often+", "+tt.check+` http_health_check: {path: /}}]
    load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {`+own+`, health_check_config: {`+tt.conf+`}},
      metadata: {filter_metadata: {envoy.transport_socket_match: {k: a}}}}]}]}
`))
			if tt.want == "" {
				r.until(t, "cluster.c.membership_healthy: 1", "cluster.c.health_check.attempt: 0", "cluster.c.a.total_match_count: 1")
				return
			}
			r.until(t, "cluster.c.health_check.healthy: 1", "cluster.c.membership_healthy: 1", "cluster.c.a.total_match_count: 1")
			if got := take(t, seen); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
