package proxy_test

import (
	"context"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// lingerer is an upstream filter that keeps the head of an attempt until it may go on.
type lingerer struct {
	cb   filter.Callbacks
	kept chan<- struct{}
	goOn <-chan struct{}
}

func (f *lingerer) DecodeHeaders(*header.Map, bool) filter.HeadersStatus {
	f.cb.Go(func(ctx context.Context) func() {
		f.kept <- struct{}{}
		select {
		case <-f.goOn:
		case <-ctx.Done():
		}
		return f.cb.ContinueDecoding
	})
	return filter.StopAllIterationAndBuffer
}

func (f *lingerer) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }
func (f *lingerer) DecodeTrailers(*header.Map) filter.TrailersStatus  { return filter.TrailersContinue }
func (f *lingerer) OnDestroy()                                        {}

// A connection of HTTP/2 that a request was given may take no stream any more when an
// upstream filter lets the request go: that is LocalRefused. The request has not been
// sent, so it may go to another connection.
func TestConnectionRefusesLocally(t *testing.T) {
	for name, c := range map[string]struct{ policy, want, log string }{
		"not tried again": {
			"", "503 upstream connect error or disconnect/reset before headers. reset reason: local refused stream reset",
			"503 LR upstream_reset_before_response_started{local_refused_stream_reset|http2:_the_connection_takes_no_more_streams}",
		},
		"tried again": {", retry_policy: {retry_on: reset-before-request, num_retries: 1, retry_back_off: {base_interval: 0.001s}}", "200 ok", "200 - via_upstream"},
	} {
		t.Run(name, func(t *testing.T) {
			kept, goOn, leave, left := make(chan struct{}, 9), make(chan struct{}, 9), make(chan struct{}), make(chan struct{})
			up := backend(t, func(w *wire, n int) {
				f := accept2(w)
				if n == 0 {
					take(t, leave)
					_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
					close(left)
				}
				if r := f.request(); r != nil {
					f.head(r.StreamID, false, ":status: 200")
					_ = f.WriteData(r.StreamID, true, []byte("ok"))
				}
				w.untilClosed()
			})
			kind := filter.HTTPType{Upstream: true, Config: (*wrapperspb.StringValue)(nil), New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
				return func(cb filter.Callbacks) filter.HTTPFilter {
					return filter.HTTPFilter{Decoder: &lingerer{cb, kept, goOn}}
				}, nil
			}}
			v := (&site{
				hosts: []string{up}, routes: "{match: {prefix: /}, route: {cluster: back" + c.policy + "}}",
				cluster: speaking(`http_filters: [{name: l, typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: x}},
					{name: codec, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec}}],`, ""),
			}).serve(t, func(_ *proxyrun.Flags, o *proxy.Options) {
				o.Register = func(r *filter.Registry) error { return r.AddHTTP(kind) }
			})
			w := v.dial(t)
			w.get("/")
			take(t, kept)
			leave <- struct{}{}
			<-left
			v.counts(t, "cluster.back.upstream_cx_close_notify 1")
			for range 2 {
				goOn <- struct{}{}
			}
			w.want(c.want)
			v.logged(t, c.log)
		})
	}
}
