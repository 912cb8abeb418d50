package proxy_test

import (
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// The proxy says once how its workers send, and does without io_uring when it
// is told to.
func TestSendingIsLogged(t *testing.T) {
	for _, without := range []bool{false, true} {
		r := start(t, small+adminHere, workers(2), func(_ *proxyrun.Flags, o *proxy.Options) { o.NoIOURing = without })
		log := r.log.String()
		told := strings.Contains(log, "told not to use io_uring")
		if told != without || strings.Count(log, "main: sending ") != 1 {
			t.Errorf("without io_uring: %t; the log is %s", without, log)
		}
	}
}
