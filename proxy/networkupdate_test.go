package proxy_test

import (
	"sync/atomic"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	echov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// naming is a network filter that says its name before whatever passes.
type naming struct {
	name string
	conn filter.Connection
}

func (n *naming) OnNewConnection() filter.NetworkStatus { return filter.NetworkContinue }

func (n *naming) OnData(b *filter.Buffer, _ bool) filter.NetworkStatus {
	if b.Len() > 0 {
		n.conn.Write([]byte(n.name+" "), false)
	}
	return filter.NetworkContinue
}

// Proves NF-03, with TestNetworkFiltersPerConnection: of two connections over an
// update the first keeps the filters that it began with, the second has the new
// ones, whether the update changes the chain or the whole listener. Each
// configuration is read once for its chain.
func TestNetworkFiltersOverAnUpdate(t *testing.T) {
	var read atomic.Int64
	kind := filter.NetworkType{Config: (*wrapperspb.StringValue)(nil), New: func(m proto.Message, _ *filter.Env) (filter.NetworkFactory, error) {
		read.Add(1)
		name := m.(*wrapperspb.StringValue).GetValue() //nolint:forcetypeassert // as registered
		return func(c filter.Connection) filter.NetworkFilter {
			return filter.NetworkFilter{Read: &naming{name, c}}
		}, nil
	}}
	r := start(t, byHeader, newSource().by, workers(1), func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddNetwork(kind) }
	})
	res, at := r.Resources(), freeAddress(t)
	listening := func(name string) *listenerv3.Listener {
		c := chainOf(&listenerv3.Filter{Name: "naming", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(wrapperspb.String(name))}})
		c.Filters = append(c.Filters, &listenerv3.Filter{Name: "echo", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(&echov3.Echo{})}})
		return listenerAt("l", at, c)
	}
	says := func(l *line, want string) bool {
		t.Helper()
		if _, err := l.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len(want))
		for n := 0; n < len(b); {
			k, err := l.r.Read(b[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
		return string(b) == want
	}
	must(t, res.SetListener(listening("one"), "1"))
	first := dialLine(t, at, "")
	if !says(first, "one x") {
		t.Fatal("the first connection has other filters")
	}
	for i, change := range []func(*listenerv3.Listener){
		func(*listenerv3.Listener) {},
		func(l *listenerv3.Listener) { l.PerConnectionBufferLimitBytes = wrapperspb.UInt32(1 << 16) },
	} {
		l := listening("two")
		change(l)
		must(t, res.SetListener(l, string(rune('2'+i))))
		for second := dialLine(t, at, ""); !says(second, "two x"); second = dialLine(t, at, "") { // the worker has not heard yet
			_ = second.Close()
		}
		if !says(first, "one x") {
			t.Error("the first connection has got other filters")
		}
	}
	if n := read.Load(); n != 3 {
		t.Errorf("configurations were read %d times", n)
	}
}
