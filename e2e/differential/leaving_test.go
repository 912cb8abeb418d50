//go:build interop

package differential

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// leavingBootstrap has listeners of each direction and drain_type.
func leavingBootstrap() map[string]string {
	const hcm = `{"name": "hcm", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
		"stat_prefix": "NAME", "route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]}]},
		"http_filters": [{"name": "r", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}`
	const address = `{"socket_address": {"address": "127.0.0.1", "port_value": 0}}`
	var listeners []string
	for _, l := range [][2]string{{"in", `"traffic_direction": "INBOUND"`}, {"out", `"traffic_direction": "OUTBOUND"`}, {"modify", `"drain_type": "MODIFY_ONLY"`}} {
		listeners = append(listeners, `{"name": "`+l[0]+`", "stat_prefix": "`+l[0]+`", "address": `+address+`, `+l[1]+`, "filter_chains": [{"filters": [`+strings.ReplaceAll(hcm, "NAME", l[0])+`]}]}`)
	}
	return map[string]string{
		"bootstrap.json": `{"node": {"id": "id", "cluster": "c"}, "admin": {"address": ` + address + `}, "static_resources": {"listeners": [` + strings.Join(listeners, ", ") + `]}}`,
	}
}

// asked is what a request on an open connection, and one on a new one, come to.
type asked struct {
	c net.Conn
	b *bufio.Reader
}

func askOn(port int) *asked {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	return &asked{c, bufio.NewReader(c)}
}

func (a *asked) once() string {
	if a == nil {
		return "refused"
	}
	_, _ = io.WriteString(a.c, "GET / HTTP/1.1\r\nhost: a\r\n\r\n")
	resp, err := http.ReadResponse(a.b, nil)
	if err != nil {
		return "closed"
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.Close {
		return "last"
	}
	return "open"
}

// TestLeaving compares what clients and operators see while the health check is
// failed and while listeners are drained. Proves AD-14. Partly proves AD-13, HR-01.
func TestLeaving(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]string{
		{"/healthcheck/fail", "/healthcheck/ok"},
		{"/drain_listeners"},
		{"/drain_listeners?inboundonly", "/drain_listeners"},
		{"/drain_listeners?graceful"},
		{"/drain_listeners?graceful&inboundonly"},
		{"/drain_listeners?graceful&skip_exit", "/drain_listeners?graceful"},
		{"/drain_listeners?skip_exit"},
		{"/healthcheck/fail", "/drain_listeners?graceful&skip_exit", "/healthcheck/ok"},
	} {
		t.Run(strings.Join(steps, " "), func(t *testing.T) {
			t.Parallel()
			p := startPair(t, leavingBootstrap())
			for _, step := range steps {
				var seen [2]map[string]string
				for i, s := range p {
					seen[i] = leave(s, step)
				}
				if e, x := fmt.Sprint(seen[0]), fmt.Sprint(seen[1]); e != x {
					t.Errorf("%s:\nEnvoy %s\nXebec %s", step, e, x)
				}
			}
		})
	}
}

// leave does a step and looks what it comes to, after the drain time, which is 1 s.
func leave(s *side, step string) map[string]string {
	out := map[string]string{}
	names := []string{"in", "out", "modify"}
	open := map[string]*asked{}
	for _, name := range names {
		open[name] = askOn(s.ports[name])
		out[name+" before"] = open[name].once()
	}
	out["answer"] = s.page("POST", step)
	time.Sleep(1200 * time.Millisecond)
	out["ready"] = s.page("GET", "/ready")
	_, state, _ := strings.Cut(s.page("GET", "/server_info"), `"state": "`)
	out["state"], _, _ = strings.Cut(state, `"`)
	for _, name := range names {
		if out[name+" before"] == "open" {
			out[name+" open"] = open[name].once()
		}
		out[name+" new"] = askOn(s.ports[name]).once()
	}
	time.Sleep(50 * time.Millisecond)
	out["stats"] = strings.ReplaceAll(s.page("GET", `/stats?filter=^http.(in|out|modify).downstream_cx_drain_close|^server.live|listener_stopped`), "\n", " ")
	for _, a := range open {
		if a != nil {
			_ = a.c.Close()
		}
	}
	return out
}

// page is an admin page whatever its status.
func (s *side) page(method, path string) string {
	req, err := http.NewRequest(method, s.admin.URL+path, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(b))
}
