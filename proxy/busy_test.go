package proxy_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// Proves AD-19: the endpoints answer while a worker is stuck in a filter.
func TestAdminWhileWorkersAreBusy(t *testing.T) {
	stuck, free := make(chan struct{}), make(chan struct{})
	kind := filter.HTTPType{
		Config: (*wrapperspb.StringValue)(nil),
		New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
			return func(filter.Callbacks) filter.HTTPFilter {
				close(stuck)
				<-free
				return filter.HTTPFilter{}
			}, nil
		},
	}
	b := strings.Replace(small, "          http_filters:\n", `          http_filters:
          - name: stuck
            typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: x}
`, 1)
	r := start(t, b+adminHere, drainTime(time.Minute), func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddHTTP(kind) }
	})
	answered := make(chan error, 1)
	go func() {
		resp, err := r.client.Get("http://" + r.Listeners()["front"][0])
		if err == nil {
			_ = resp.Body.Close()
		}
		answered <- err
	}()
	<-stuck
	for _, path := range []string{"/ready", "/server_info", "/listeners", "/config_dump", "/certs", "/memory", "/runtime", "/help"} {
		r.get(t, path)
	}
	close(free)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
