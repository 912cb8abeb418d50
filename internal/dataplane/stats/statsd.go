package stats

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// LineSink takes lines of statsd that end in a newline, several at a time. Send
// must not block and not keep b. It is false when b was dropped because the
// receiver is too slow for what waits already; dropping for want of a host is
// no fault of the receiver's and true. The proxy supplies it as a connection to
// a cluster.
type LineSink interface{ Send(b []byte) bool }

// Statsd writes lines as Envoy's statsd sinks do (ST-14): name:delta|c,
// name:value|g and name:sample|ms.
//
// Envoy sends a line for each sample as it is recorded. Here samples wait in
// bins for the flush: up to [sampleLines] of a bin are sent as lines of their
// own, more as one line with statsd's sample rate (name:15|ms|@0.001 stands for
// 1000 samples), so a flush is bounded by the number of names.
type Statsd struct {
	prefix string
	tags   bool // DogStatsD
	scale  bool // microseconds to milliseconds
	max    int  // bytes of a chunk; 0 for one line each
	eol    bool // lines end in a newline, the last one too
	send   func([]byte) error
	close  func() error

	buf  []byte // lines not sent yet
	line []byte
	name []byte // of the line
	err  error  // of this flush
	lost int
}

// sampleLines is how many equal samples are written one by one.
const sampleLines = 16

// tcpChunk is how much a TCP sink is given at a time.
const tcpChunk = 16 << 10

// NewStatsdTCP makes a sink that sends to out. The prefix is "envoy" if empty.
// With scale, histograms in microseconds are sent as fractions of milliseconds
// (scale_histogram_units_to_milliseconds). Close closes out if it is an
// io.Closer.
func NewStatsdTCP(prefix string, scale bool, out LineSink) *Statsd {
	return &Statsd{
		prefix: orEnvoy(prefix), scale: scale, max: tcpChunk, eol: true,
		send: func(b []byte) error {
			if !out.Send(b) {
				return errors.New("too much waits for it already")
			}
			return nil
		},
		close: func() error {
			if c, ok := out.(io.Closer); ok {
				return c.Close()
			}
			return nil
		},
	}
}

func orEnvoy(prefix string) string {
	if prefix == "" {
		return "envoy"
	}
	return prefix
}

// Flush writes a batch. The error says how much was dropped.
func (s *Statsd) Flush(b *Batch) error {
	s.err, s.lost = nil, 0
	b.Counters(func(m Metric, delta uint64) {
		s.begin(m)
		s.line = append(strconv.AppendUint(s.line, delta, 10), "|c"...)
		s.end(m)
	})
	b.Gauges(func(m Metric, v uint64) {
		s.begin(m)
		s.line = append(strconv.AppendUint(s.line, v, 10), "|g"...)
		s.end(m)
	})
	b.Samples(s.sample)
	s.flush()
	if s.err != nil {
		return fmt.Errorf("statsd: %d bytes dropped: %w", s.lost, s.err)
	}
	return nil
}

// Close gives up the socket, if there is one.
func (s *Statsd) Close() error { return s.close() }

func (s *Statsd) sample(m Metric, value float64, n uint64) {
	if s.scale && m.Unit() == Microseconds {
		value /= 1000
	}
	lines, rate := n, uint64(1)
	if n > sampleLines {
		lines, rate = 1, n
	}
	for range lines {
		s.begin(m)
		s.line = append(strconv.AppendFloat(s.line, value, 'f', -1, 64), "|ms"...)
		if rate > 1 {
			s.line = strconv.AppendFloat(append(s.line, "|@"...), 1/float64(rate), 'f', -1, 64)
		}
		s.end(m)
	}
}

// begin writes the name. A name may hold what separates fields: a virtual
// host's may have colons.
func (s *Statsd) begin(m Metric) {
	if s.name = m.m.appendName(s.name[:0]); s.tags {
		s.name = append(s.name[:0], m.Series()...)
	}
	s.line = append(append(s.line[:0], s.prefix...), '.')
	for _, c := range s.name {
		switch c {
		case ':', '|', '@', '\n':
			s.line = append(s.line, '_')
		default:
			s.line = append(s.line, c)
		}
	}
	s.line = append(s.line, ':')
}

// end writes the tags and hands the line on.
func (s *Statsd) end(m Metric) {
	if s.tags {
		if tags := m.by.of(m.m).tags.dogstatsd; tags != "" {
			s.line = append(append(s.line, "|#"...), tags...)
		}
	}
	more := len(s.line) + 1
	if len(s.buf) > 0 && len(s.buf)+more > s.max {
		s.flush()
	}
	if len(s.buf) > 0 && !s.eol {
		s.buf = append(s.buf, '\n')
	}
	s.buf = append(s.buf, s.line...)
	if s.eol {
		s.buf = append(s.buf, '\n')
	}
}

func (s *Statsd) flush() {
	if len(s.buf) == 0 {
		return
	}
	if err := s.send(s.buf); err != nil {
		s.err = err
		s.lost += len(s.buf)
	}
	s.buf = s.buf[:0]
}
