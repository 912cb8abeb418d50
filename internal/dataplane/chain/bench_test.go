package chain_test

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	_ "google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/chain"
	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
)

// passer is a filter that lets everything pass.
type passer struct{}

func (passer) DecodeHeaders(*header.Map, bool) filter.HeadersStatus { return filter.Continue }
func (passer) DecodeData(*filter.Buffer, bool) filter.DataStatus    { return filter.DataContinue }
func (passer) DecodeTrailers(*header.Map) filter.TrailersStatus     { return filter.TrailersContinue }
func (passer) Encode1xx(*header.Map)                                {}
func (passer) EncodeHeaders(*header.Map, bool) filter.HeadersStatus { return filter.Continue }
func (passer) EncodeData(*filter.Buffer, bool) filter.DataStatus    { return filter.DataContinue }
func (passer) EncodeTrailers(*header.Map) filter.TrailersStatus     { return filter.TrailersContinue }

// last ends the chain.
type last struct{ passer }

func (last) DecodeHeaders(*header.Map, bool) filter.HeadersStatus { return filter.StopIteration }
func (last) DecodeData(*filter.Buffer, bool) filter.DataStatus {
	return filter.DataStopIterationNoBuffer
}

// quiet is a stream that takes no notes.
type quiet struct{ *filtertest.Stream }

func (quiet) EncodedHeaders(*header.Map, bool) {}
func (quiet) EncodedData([]byte, bool)         {}

// exchange runs a request and a response with bodies through filters.
func exchange(s *filtertest.Stream, body []byte, filters int) {
	c := &s.Chain
	c.Reset(quiet{s}, 1<<20)
	c.Grow(filters + 1)
	for range filters {
		c.Add("p", func(filter.Callbacks) filter.HTTPFilter {
			return filter.HTTPFilter{Decoder: passer{}, Encoder: passer{}}
		})
	}
	c.Add("host", func(filter.Callbacks) filter.HTTPFilter { return filter.HTTPFilter{Decoder: last{}} })
	c.DecodeHeaders(&s.Request, false)
	c.DecodeData(body, true)
	c.EncodeHeaders(&s.Response, false)
	c.EncodeData(body, true)
	c.Complete()
	c.Destroy()
}

// The chain itself allocates nothing in the steady state. (The owner of this
// test, a value in an interface, is one allocation.)
func TestAllocations(t *testing.T) {
	s := filtertest.NewStream(0)
	body := make([]byte, 1000)
	exchange(s, body, 3)
	if n := testing.AllocsPerRun(100, func() { exchange(s, body, 3) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Finding what makes a filter costs nothing, whether it is configured or
// discovered.
func TestFactoryAllocations(t *testing.T) {
	factory := func(filter.Callbacks) filter.HTTPFilter { return filter.HTTPFilter{Decoder: passer{}} }
	url := "type.googleapis.com/google.protobuf.StringValue"
	slot, err := extension.New(extension.HTTP, "x", &corev3.ExtensionConfigSource{
		ConfigSource: &corev3.ConfigSource{}, TypeUrls: []string{url}, DefaultConfig: &anypb.Any{TypeUrl: url},
	}, &extension.Env{
		Workers: 1, Known: func(string) error { return nil }, Add: func(*extension.Place) {},
		Unpack:      func(a *anypb.Any) (proto.Message, error) { return a.UnmarshalNew() },
		CheckSource: func(string, *corev3.ConfigSource) error { return nil },
	}, func(proto.Message) (filter.HTTPFactory, error) { return factory, nil })
	if err != nil {
		t.Fatal(err)
	}
	specs := []chain.Spec{{Name: "configured", New: factory}, {Name: "discovered", Discovered: slot}}
	if n := testing.AllocsPerRun(100, func() {
		for i := range specs {
			if specs[i].Factory(0) == nil {
				t.Error("there is none")
			}
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkExchange(b *testing.B) {
	s := filtertest.NewStream(0)
	body := make([]byte, 1000)
	for b.Loop() {
		exchange(s, body, 3)
	}
}

// BenchmarkEntry is one way into the chain, with its deferred recovery, and a
// filter behind it.
func BenchmarkEntry(b *testing.B) {
	s := filtertest.NewStream(0)
	body := make([]byte, 1000)
	c := &s.Chain
	c.Reset(quiet{s}, 1<<20)
	c.Grow(1)
	c.Add("host", func(filter.Callbacks) filter.HTTPFilter { return filter.HTTPFilter{Decoder: last{}} })
	c.DecodeHeaders(&s.Request, false)
	for b.Loop() {
		c.DecodeData(body, false)
	}
}
