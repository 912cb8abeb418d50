package xdsclient_test

import (
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// A type that is withheld while a response is looked at is not answered before
// Resume; other types are.
func TestWithhold(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		clusters := cdsType()
		clusters.Validate = func(string, string, string) error {
			sc.s.Withhold(xds.ClusterType)
			return nil
		}
		sc.watch(clusters, xdsclient.Wildcard)
		st := sc.f[0].stream(1)
		st.got()
		st.answer(cds("1", "A", "x=1"))
		st.expect()
		sc.watch(edsType(), "x")
		time.Sleep(time.Second) // requests that are no answers gather
		if got := st.got(); len(got) != 1 {
			t.Errorf("requests for endpoints: %q", got)
		}
		st.answer(eds("1", "B", "x=1"))
		if got := st.got(); len(got) != 1 {
			t.Errorf("answers for endpoints: %q", got)
		}
		sc.s.Resume(xds.ClusterType)
		st.expect("CDS v=1 n=A")
		sc.s.Resume(xds.ClusterType)
		st.expect()
	})
}
