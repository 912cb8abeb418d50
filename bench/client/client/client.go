// Package client is what the clients under test of this module have in common:
// the flags, the counting of values, and the answers to what the comparison
// asks of them.
package client

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/bench/client/talk"
)

// patience is how long a client may take to get all first values.
const patience = time.Minute

// Options is the command line of every client.
type Options struct {
	// Address is the server's.
	Address string
	// Delta asks for the delta variant.
	Delta bool
	// Bare keeps nothing of what a resource says, so that what is left is the
	// client's own.
	Bare bool
	// GRPCGo has Xebec's client speak gRPC by grpc-go instead of its own transport.
	GRPCGo bool
	// Profile is a file for a CPU profile; empty for none.
	Profile string
}

// Flags declares the flags.
func (o *Options) Flags(fs *flag.FlagSet) {
	fs.StringVar(&o.Address, "addr", "", "`address` of the server")
	fs.BoolVar(&o.Delta, "delta", false, "use the delta variant")
	fs.BoolVar(&o.Bare, "bare", false, "keep nothing of what resources say")
	fs.BoolVar(&o.GRPCGo, "grpc-go", false, "have Xebec's client use grpc-go")
	fs.StringVar(&o.Profile, "profile", "", "write a CPU profile to a `file`")
}

// Client is an xDS client under test.
type Client interface {
	// Watch starts a watch of each cluster from a number up to but not including
	// another, and of their assignments if asked, in a loop. It does not wait.
	Watch(from, to int, assignments bool) error
}

// Seen counts values. It is safe for concurrent use.
type Seen struct {
	mu      sync.Mutex
	values  int
	target  int
	reached chan struct{}
	err     error
}

// Add counts a value.
func (s *Seen) Add() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values++
	s.check()
}

// Fail notes that a watch was told something else than a value.
func (s *Seen) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.check()
}

func (s *Seen) check() {
	if s.reached != nil && (s.err != nil || s.values >= s.target) {
		close(s.reached)
		s.reached = nil
	}
}

// Count is the values so far, and the first error.
func (s *Seen) Count() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values, s.err
}

// Wait waits until there have been so many values, or an error.
func (s *Seen) Wait(ctx context.Context, values int) error {
	s.mu.Lock()
	reached := make(chan struct{})
	s.reached, s.target = reached, values
	s.check()
	s.mu.Unlock()
	select {
	case <-reached:
		_, err := s.Count()
		return err
	case <-ctx.Done():
		n, _ := s.Count()
		return fmt.Errorf("%d of %d values: %w", n, values, ctx.Err())
	}
}

// Main is a client's program: it runs run with the options of the command line
// until run, or the process, is to end.
func Main(name string, run func(ctx context.Context, o Options, in io.Reader, out io.Writer) error) {
	var o Options
	o.Flags(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Run does what is asked on in until it ends.
func (o Options) Run(ctx context.Context, in io.Reader, out io.Writer, c Client, seen *Seen) error {
	if o.Profile != "" {
		f, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	return talk.Serve(in, out, func(q talk.Ask) talk.Answer {
		a, err := answer(ctx, q, c, seen)
		if err != nil {
			a.Error = err.Error()
		}
		return a
	})
}

func answer(ctx context.Context, q talk.Ask, c Client, seen *Seen) (a talk.Answer, err error) {
	switch q.Do {
	case talk.Watch:
		a.Took, err = watch(ctx, q, c, seen)
	case talk.Count:
		a.Values, err = seen.Count()
	case talk.Rest:
		a.Heap, a.Goroutines = rest()
		a.Values, err = seen.Count()
	default:
		err = errors.New("no such request: " + q.Do)
	}
	return a, err
}

func watch(ctx context.Context, q talk.Ask, c Client, seen *Seen) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := seen.Count()
	if err != nil {
		return 0, err
	}
	want := q.To - q.From
	if q.Assignments {
		want *= 2
	}
	start := time.Now()
	if err := c.Watch(q.From, q.To, q.Assignments); err != nil {
		return 0, err
	}
	err = seen.Wait(ctx, before+want)
	return time.Since(start), err
}

// rest collects garbage twice, since what a finalizer or a pool kept goes with
// the second time.
func rest() (heap, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc), runtime.NumGoroutine()
}
