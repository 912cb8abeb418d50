package chain_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
)

// TestScripts runs the scripts of testdata; see testdata/README.md.
//
// Proves HF-01, HF-02, HF-03, HF-04, HF-05, HF-06, HF-12 and HC-49.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var s *session
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "chain" {
				s = newSession(t, d)
			} else {
				s.run(t, d)
			}
			return s.take()
		})
	})
}

// session is a chain that a script drives.
type session struct {
	stream *filtertest.Stream
	by     map[string]*recorder
	trace  strings.Builder
}

func (s *session) log(format string, args ...any) { fmt.Fprintf(&s.trace, format+"\n", args...) }

func (s *session) take() string {
	out := s.trace.String()
	s.trace.Reset()
	if out == "" {
		return "nothing\n"
	}
	return out
}

func newSession(t *testing.T, d *datadriven.TestData) *session {
	s := &session{by: map[string]*recorder{}}
	limit := 0
	d.MaybeScanArgs(t, "limit", &limit)
	var filters []filtertest.Filter
	for text := range strings.Lines(d.Input) {
		fields := strings.Fields(text)
		r := &recorder{s: s, name: fields[0], todo: map[string][]string{}}
		for _, f := range fields[1:] {
			key, list, _ := strings.Cut(f, "=")
			r.todo[key] = strings.Split(list, ",")
		}
		s.by[r.name] = r
		filters = append(filters, filtertest.Filter{Name: r.name, New: r.make})
	}
	s.stream = filtertest.NewStream(limit, filters...)
	s.stream.Log = s.log
	return s
}

func (s *session) run(t *testing.T, d *datadriven.TestData) {
	arg := func(i int) string {
		if i < len(d.CmdArgs) {
			return d.CmdArgs[i].Key
		}
		return ""
	}
	end := d.HasArg("end")
	st, c := s.stream, &s.stream.Chain
	switch d.Cmd {
	case "headers":
		filtertest.Headers(&st.Request, ":method", "GET", ":path", "/")
		c.DecodeHeaders(&st.Request, end)
	case "data":
		c.DecodeData([]byte(arg(0)), end)
	case "end":
		c.DecodeData(nil, true)
	case "trailers":
		c.DecodeTrailers(filtertest.Headers(&st.Trailers, "t", "1"))
	case "info":
		var h header.Map
		c.Encode1xx(filtertest.Headers(&h, ":status", arg(0)))
	case "response":
		c.EncodeHeaders(filtertest.Headers(&st.Response, ":status", arg(0)), end)
	case "rdata":
		c.EncodeData([]byte(arg(0)), end)
	case "rend":
		c.EncodeData(nil, true)
	case "rtrailers":
		c.EncodeTrailers(filtertest.Headers(&st.ResponseTrailers, "t", "1"))
	case "continue":
		s.by[arg(0)].cb.ContinueDecoding()
	case "rcontinue":
		s.by[arg(0)].cb.ContinueEncoding()
	case "inject":
		s.by[arg(0)].cb.InjectDecodedData([]byte(arg(1)), end)
	case "rinject":
		s.by[arg(0)].cb.InjectEncodedData([]byte(arg(1)), end)
	case "add":
		s.by[arg(0)].cb.AddDecodedData([]byte(arg(1)))
	case "radd":
		s.by[arg(0)].cb.AddEncodedData([]byte(arg(1)))
	case "reply":
		code, _ := strconv.Atoi(arg(0))
		c.LocalReply(&filter.LocalReply{Status: code, Body: arg(1), Details: "script"})
	case "limit":
		n, _ := strconv.Atoi(arg(1))
		s.by[arg(0)].cb.SetBufferLimit(n)
	case "watermark":
		c.Downstream(arg(0) == "above")
	case "after":
		r := s.by[arg(0)]
		r.cb.After(0, func() { r.act("dh", arg(1)) })
		st.Advance(0)
	case "finish":
		st.Finish()
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
}

// recorder is a filter that writes down what it is called with, and does what
// the script says.
type recorder struct {
	s    *session
	name string
	cb   filter.Callbacks
	todo map[string][]string // by callback: what to do, call by call
}

func (r *recorder) make(cb filter.Callbacks) filter.HTTPFilter {
	r.cb = cb
	_, only := r.todo["decoder"]
	if only {
		return filter.HTTPFilter{Decoder: r}
	}
	if _, only = r.todo["encoder"]; only {
		return filter.HTTPFilter{Encoder: r}
	}
	return filter.HTTPFilter{Decoder: r, Encoder: r}
}

// next does what is due at a callback and returns the word for its answer.
func (r *recorder) next(key string) string {
	list := r.todo[key]
	if len(list) == 0 {
		return "continue"
	}
	r.todo[key] = list[1:]
	status := "continue"
	for word := range strings.SplitSeq(list[0], "+") {
		if !r.act(key, word) {
			status = word
		}
	}
	return status
}

// act does something; false if the word is an answer.
func (r *recorder) act(key, word string) bool {
	verb, arg, _ := strings.Cut(strings.TrimSuffix(word, ")"), "(")
	decoding := key[0] == 'd'
	switch verb {
	case "add":
		if decoding {
			r.cb.AddDecodedData([]byte(arg))
		} else {
			r.cb.AddEncodedData([]byte(arg))
		}
	case "inject", "injectend":
		if decoding {
			r.cb.InjectDecodedData([]byte(arg), verb == "injectend")
		} else {
			r.cb.InjectEncodedData([]byte(arg), verb == "injectend")
		}
	case "trailer":
		if decoding {
			r.cb.AddDecodedTrailers().Add(arg, "1")
		} else {
			r.cb.AddEncodedTrailers().Add(arg, "1")
		}
	case "reply":
		code, _ := strconv.Atoi(arg)
		r.cb.SendLocalReply(filter.LocalReply{Status: code, Body: "local", Details: r.name})
		r.s.log("%s: replied", r.name)
	case "reset":
		r.cb.ResetStream(r.name)
	case "panic":
		panic(r.name)
	case "held":
		b := r.cb.DecodingBuffer()
		if !decoding {
			b = r.cb.EncodingBuffer()
		}
		if b == nil {
			r.s.log("%s: nothing held", r.name)
		} else {
			r.s.log("%s: held %q", r.name, b.Bytes())
		}
	case "go":
		r.cb.Go(func(ctx context.Context) func() { panic(r.name + " at work") })
	default:
		return false
	}
	return true
}

func headersStatus(word string) filter.HeadersStatus {
	return map[string]filter.HeadersStatus{
		"continue": filter.Continue, "stop": filter.StopIteration, "noend": filter.ContinueAndDontEndStream,
		"allbuffer": filter.StopAllIterationAndBuffer, "allwatermark": filter.StopAllIterationAndWatermark,
	}[word]
}

func dataStatus(word string) filter.DataStatus {
	return map[string]filter.DataStatus{
		"continue": filter.DataContinue, "buffer": filter.DataStopIterationAndBuffer,
		"watermark": filter.DataStopIterationAndWatermark, "drop": filter.DataStopIterationNoBuffer,
	}[word]
}

func trailersStatus(word string) filter.TrailersStatus {
	if word == "stop" {
		return filter.TrailersStop
	}
	return filter.TrailersContinue
}

func ending(end bool) string {
	if end {
		return " end"
	}
	return ""
}

func (r *recorder) DecodeHeaders(_ *header.Map, end bool) filter.HeadersStatus {
	r.s.log("%s: headers%s", r.name, ending(end))
	return headersStatus(r.next("dh"))
}

func (r *recorder) DecodeData(b *filter.Buffer, end bool) filter.DataStatus {
	r.s.log("%s: data %q%s", r.name, b.Bytes(), ending(end))
	return dataStatus(r.next("dd"))
}

func (r *recorder) DecodeTrailers(*header.Map) filter.TrailersStatus {
	r.s.log("%s: trailers", r.name)
	return trailersStatus(r.next("dt"))
}

func (r *recorder) Encode1xx(h *header.Map) { r.s.log("%s: %s", r.name, h.Get(":status")) }

func (r *recorder) EncodeHeaders(h *header.Map, end bool) filter.HeadersStatus {
	r.s.log("%s: response %s%s", r.name, h.Get(":status"), ending(end))
	return headersStatus(r.next("eh"))
}

func (r *recorder) EncodeData(b *filter.Buffer, end bool) filter.DataStatus {
	r.s.log("%s: response data %q%s", r.name, b.Bytes(), ending(end))
	return dataStatus(r.next("ed"))
}

func (r *recorder) EncodeTrailers(*header.Map) filter.TrailersStatus {
	r.s.log("%s: response trailers", r.name)
	return trailersStatus(r.next("et"))
}

func (r *recorder) OnLocalReply(l *filter.LocalReply) bool {
	r.s.log("%s: local reply %d", r.name, l.Status)
	return r.next("lr") == "reset!"
}

func (r *recorder) OnAboveHighWatermark() { r.s.log("%s: client is slow", r.name) }
func (r *recorder) OnBelowLowWatermark()  { r.s.log("%s: client keeps up", r.name) }

func (r *recorder) OnStreamComplete() {
	r.s.log("%s: complete", r.name)
	r.next("complete")
}

func (r *recorder) OnDestroy() {
	r.s.log("%s: destroyed", r.name)
	r.next("destroy")
}
