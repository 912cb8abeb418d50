package xdsclient_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// What redirects and list collections lead to is stored with them, and found again while no
// server can be reached.
func TestStoredWays(t *testing.T) {
	store := &memStore{}
	located(t, xdsclient.Config{Store: store}, func(sc *scene) {
		sc.watch(cdsType(), clusterA+"x")
		sc.watch(cdsType(), listA+"l")
		a := sc.f[0].stream(1)
		a.answer(holds(t, clusterA+"x>"+clusterB+"y", listA+"l[in=1 "+clusterB+"y]"))
		sc.f[1].stream(1).answer(holds(t, clusterB+"y=2"))
		time.Sleep(2 * time.Second)
	})
	located(t, xdsclient.Config{Store: store}, func(sc *scene) {
		sc.f[0].fail(errDown)
		sc.f[1].fail(errDown)
		sc.watch(cdsType(), clusterA+"x")
		sc.watch(cdsType(), listA+"l")
		time.Sleep(time.Second)
		synctest.Wait()
		got := strings.Join(sc.r.take(), "\n")
		for _, want := range []string{clusterA + "x=2", listA + "l#entry=in=1", clusterB + "y=2"} {
			if !strings.Contains(got, want) {
				t.Errorf("told %s\nwithout %s", got, want)
			}
		}
	})
}
