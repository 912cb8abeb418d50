package filter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/proxy"
)

// Check asks whether a token is good. It may block until ctx ends, which it
// does with the stream.
type Check func(ctx context.Context, token string) bool

// Token is a kind of filter that asks about a token in each request before it
// goes on. Its configuration is the name of the header, as a
// google.protobuf.StringValue.
func Token(check Check) filter.HTTPType {
	return filter.HTTPType{
		Config: &wrapperspb.StringValue{},
		New: func(cfg proto.Message, env *filter.Env) (filter.HTTPFactory, error) {
			c, ok := cfg.(*wrapperspb.StringValue)
			if !ok || c.GetValue() == "" {
				return nil, errors.New("value: the name of a header is needed")
			}
			name, refused := strings.ToLower(c.GetValue()), env.Stats.Counter("token.refused")
			return func(cb filter.Callbacks) filter.HTTPFilter {
				return filter.HTTPFilter{Decoder: &token{cb: cb, name: name, check: check, refused: refused}}
			}, nil
		},
	}
}

// token is the filter of one request.
type token struct {
	cb      filter.Callbacks
	name    string
	check   Check
	refused uint32
}

func (t *token) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	value := strings.Clone(h.Get(t.name)) // the goroutine may outlive the headers
	t.cb.Go(func(ctx context.Context) func() {
		ok := t.check(ctx, value) // on a goroutine: may block, must not touch the stream
		return func() {           // on the worker: may not block, may touch the stream
			if ok {
				t.cb.ContinueDecoding()
				return
			}
			t.cb.Stats().Inc(t.refused)
			t.cb.SendLocalReply(filter.LocalReply{Status: http.StatusForbidden, Body: "no\n", Details: "token_refused"})
		}
	})
	return filter.StopAllIterationAndWatermark // nothing comes until the answer is there
}

func (*token) DecodeData(*filter.Buffer, bool) filter.DataStatus { return filter.DataContinue }

func (*token) DecodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

const bootstrap = `{"static_resources": {"listeners": [{
  "name": "front",
  "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
  "filter_chains": [{"filters": [{"name": "http", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "stat_prefix": "front",
    "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
      {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "welcome\n"}}}]}]},
    "http_filters": [
      {"name": "token", "typed_config": {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "x-token"}},
      {"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]
  }}]}]
}]}}`

// A filter that blocks, in a proxy that has it, on a port that the system chose.
func Example() {
	var b bootstrapv3.Bootstrap
	if err := protojson.Unmarshal([]byte(bootstrap), &b); err != nil {
		fmt.Println(err)
		return
	}
	p, err := proxy.New(&b, proxy.Options{Workers: 1, Register: func(r *filter.Registry) error {
		return r.AddHTTP(Token(func(_ context.Context, token string) bool { return token == "open sesame" }))
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	<-p.Ready() // a program would also look at ended
	for _, token := range []string{"open sesame", "please"} {
		ask(ctx, "http://"+p.Listeners()["front"][0]+"/", token)
	}
	stop()
	fmt.Println(<-ended)
	// Output:
	// open sesame: 200 OK
	// please: 403 Forbidden
	// <nil>
}

func ask(ctx context.Context, url, token string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("X-Token", token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Printf("%s: %s\n", token, resp.Status)
}
