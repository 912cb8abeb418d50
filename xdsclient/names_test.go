package xdsclient_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// Proves XN-02 with TestGlob and TestDirectivesStayOffTheWire of package xds, and XN-03
// with TestCheckType there and the script urn_types of internal/wire: a structured name
// is asked for in its canonical form and without directives; one with directives that
// make no sense, or of another type, is an error of its watch, nothing is sent for it,
// and others go on.
func TestNamesOnTheWire(t *testing.T) {
	const cluster = "xdstp://auth/envoy.config.cluster.v3.Cluster/"
	for _, delta := range []bool{false, true} {
		c := xdsclient.Config{Delta: delta, Authorities: map[string]xdsclient.Authority{"auth": {}}}
		bubble(t, 1, c, func(sc *scene) {
			sc.watch(cdsType(), cluster+"a%61?y=2&x=1#alt=xdstp://auth/envoy.config.cluster.v3.Cluster/b")
			st := sc.f[0].stream(1)
			if delta {
				st.expect("CDS +[" + cluster + "aa?x=1&y=2] node")
			} else {
				st.expect("CDS [" + cluster + "aa?x=1&y=2] node")
			}
			for name, want := range map[string]string{
				cluster + "b#entry=e": "entry is for list collections",
				cluster + "b#alt=xdstp://other/envoy.config.listener.v3.Listener/b":             "has type envoy.config.listener.v3.Listener, but was asked for",
				cluster + "b#alt=" + cluster + "*":                                              "a glob collection",
				cluster + "*#alt=" + cluster + "b":                                              "a glob collection",
				cluster + "b#with=c":                                                            "is unknown; the directives are",
				"xdstp://auth/envoy.config.cluster.v3.ClusterCollection/l#alt=" + cluster + "b": "where a list collection is expected",
				cluster + "b#alt=xdstp://auth/envoy.config.cluster.v3.ClusterCollection/l":      "names a list collection where one resource is expected",
				"xdstp://auth/envoy.config.listener.v3.Listener/b":                              "has type envoy.config.listener.v3.Listener, but was asked for as envoy.config.cluster.v3.Cluster",
				"xdstp://auth/envoy.config.listener.v3.ListenerCollection/b":                    "has type envoy.config.listener.v3.ListenerCollection",
			} {
				var told []string
				xdsclient.Watch(sc.s, cdsType(), name, xdsclient.Funcs[string]{Error: func(_ string, err error) { told = append(told, err.Error()) }})
				synctest.Wait()
				if len(told) != 1 || !strings.Contains(told[0], want) {
					t.Errorf("%s: %q, want %q", name, told, want)
				}
			}
			st.expect()
			r := cds("1", "A", cluster+"aa?x=1&y=2=good")
			if delta {
				r = named(r)
			}
			st.answer(r)
			if lines := strings.Join(sc.r.take(), "\n"); !strings.Contains(lines, "good") {
				t.Errorf("delta %v: the right name got %q", delta, lines)
			}
		})
	}
}
