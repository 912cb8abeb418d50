// Command xebecpeer is the client under test built on grpc-go's own xDS client.
// It does what the package talk beside it describes; it cannot import that, being a
// module of another path.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// ask and answer are talk.Ask and talk.Answer.
type ask struct {
	Do          string `json:"do"`
	From        int    `json:"from"`
	To          int    `json:"to"`
	Assignments bool   `json:"assignments"`
}

type answer struct {
	Error      string        `json:"error,omitempty"`
	Took       time.Duration `json:"took,omitempty"`
	Values     int           `json:"values,omitempty"`
	Heap       int           `json:"heap,omitempty"`
	Goroutines int           `json:"goroutines,omitempty"`
}

// patience is how long the client may take to get all first values.
const patience = time.Minute

func main() {
	address := flag.String("addr", "", "`address` of the server")
	names := flag.String("names", "cluster-%d", "`format` of the clusters' names")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *names, os.Stdin, os.Stdout); err != nil {
		log.Fatal("grpcgo: ", err)
	}
}

func run(ctx context.Context, address, names string, in io.Reader, out io.Writer) error {
	w, stop, err := connect(address, names)
	if err != nil {
		return err
	}
	defer stop()
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q ask
		if err := requests.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what is to be done: %w", err)
		}
		a, err := w.answer(ctx, q)
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}

func (w *watches) answer(ctx context.Context, q ask) (a answer, err error) {
	switch q.Do {
	case "watch":
		a.Took, err = w.watch(ctx, q)
	case "count":
		a.Values, err = w.seen.count()
	case "rest":
		a.Heap, a.Goroutines = rest()
		a.Values, err = w.seen.count()
	default:
		err = errors.New("no such request: " + q.Do)
	}
	return a, err
}

func (w *watches) watch(ctx context.Context, q ask) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := w.seen.count()
	if err != nil {
		return 0, err
	}
	want := q.To - q.From
	if q.Assignments {
		want *= 2
	}
	start := time.Now()
	w.start(q.From, q.To, q.Assignments)
	err = w.seen.wait(ctx, before+want)
	return time.Since(start), err
}

func rest() (heap, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc), runtime.NumGoroutine()
}
