package healthcheck

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

var (
	http1Options http1.Options
	http2Options http2.Options
)

// Proves HK-08 for events, as Envoy writes them: the first check, ejection, addition,
// degradation, and with always_log_… every failure and success.
func TestEvents(t *testing.T) {
	const head = `"health_checker_type":"HTTP","host":{"socket_address":{"protocol":"TCP","address":"1.0.0.1","port_value":80,"resolver_name":"","ipv4_compat":false,"network_namespace_filepath":""}},"cluster_name":"c"`
	const tail = `"locality":{"region":"","zone":"","sub_zone":""}`
	for _, tt := range []struct {
		name, fields string
		want         []string
	}{
		{"changes", ``, []string{
			`"health_check_failure_event":{"failure_type":"ACTIVE","first_check":true,"http_status_code":500} 00`,
			`"add_healthy_event":{"first_check":false} 04`,
			`"degraded_healthy_host":{} 06`,
			`"no_longer_degraded_host":{} 08`,
			`"eject_unhealthy_event":{"failure_type":"ACTIVE","http_status_code":503} 10`,
		}},
		{"everything", `"always_log_health_check_failures": true, "always_log_health_check_success": true, `, []string{
			`"health_check_failure_event":{"failure_type":"ACTIVE","first_check":true,"http_status_code":500} 00`,
			`"successful_health_check_event":{} 02`,
			`"add_healthy_event":{"first_check":false} 04`,
			`"successful_health_check_event":{} 06`,
			`"degraded_healthy_host":{} 06`,
			`"successful_health_check_event":{} 08`,
			`"no_longer_degraded_host":{} 08`,
			`"eject_unhealthy_event":{"failure_type":"ACTIVE","http_status_code":503} 10`,
			`"health_check_failure_event":{"failure_type":"ACTIVE","first_check":false,"http_status_code":503} 10`,
			`"health_check_failure_event":{"failure_type":"NETWORK_TIMEOUT","first_check":false,"http_status_code":0} 13`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, strings.Replace(httpCheck(``), "{", `{"event_log_path": "/log", `+tt.fields, 1), "")
				h, n := &httpHost{}, 0
				h.set(func(w http.ResponseWriter, r *http.Request) {
					n++
					switch n {
					case 1:
						w.WriteHeader(http.StatusInternalServerError)
					case 4:
						w.Header().Set("x-envoy-degraded", "true")
					case 6:
						w.WriteHeader(http.StatusServiceUnavailable)
					case 7:
						<-r.Context().Done()
					}
				})
				defer h.serve(&b.net, "1.0.0.1:80")()
				stop := b.run()
				time.Sleep(14 * time.Second)
				stop()
				var got []string
				for _, e := range b.events {
					e, ok := strings.CutPrefix(e, "/log: {"+head+",")
					e, ok2 := strings.CutSuffix(e, `,`+tail+"}\n")
					if !ok || !ok2 {
						t.Errorf("%s", e)
						continue
					}
					e, at, _ := strings.Cut(e, `,"timestamp":"2000-01-01T00:00:`)
					got = append(got, e+" "+strings.TrimSuffix(at, `Z"`))
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
