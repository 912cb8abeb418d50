// Package talk is how the comparison steers its programs: a line of JSON on
// their standard input asks, a line on their standard output answers. So a
// client under test needs no second connection, whose cost would be measured
// with it.
package talk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// What is asked of a client.
const (
	// Watch starts watches and answers when each has its first value.
	Watch = "watch"
	// Count answers how many values there were so far.
	Count = "count"
	// Rest collects garbage and answers what is left.
	Rest = "rest"
)

// What is asked of the server.
const (
	// Change changes one cluster after the other.
	Change = "change"
	// Counts answers what the client has sent and received so far.
	Counts = "counts"
)

// Ask is a request to a client or to the server.
type Ask struct {
	Do string `json:"do"`
	// From and To bound the clusters of Watch; Assignments asks for their
	// assignments too.
	From        int  `json:"from,omitempty"`
	To          int  `json:"to,omitempty"`
	Assignments bool `json:"assignments,omitempty"`
	// Times is how many clusters Change changes, Pause how long it waits after
	// the client has acknowledged each.
	Times int           `json:"times,omitempty"`
	Pause time.Duration `json:"pause,omitempty"`
}

// Answer is what a client answers.
type Answer struct {
	Error string `json:"error,omitempty"`
	// Took is the time from the first watch to the last value, for Watch.
	Took time.Duration `json:"took,omitempty"`
	// Values is how many values there were since the start.
	Values int `json:"values,omitempty"`
	// Heap is the bytes in the heap after garbage collection, Goroutines how
	// many there are, for Rest.
	Heap       int `json:"heap,omitempty"`
	Goroutines int `json:"goroutines,omitempty"`
}

// Traffic is what the server answers: everything since its start.
type Traffic struct {
	Error string `json:"error,omitempty"`
	// Address is where it serves.
	Address string `json:"address,omitempty"`
	// Requests counts discovery requests; Sent and Received are the bytes that
	// clients have sent and received, with all of HTTP/2's.
	Requests int `json:"requests"`
	Sent     int `json:"sent"`
	Received int `json:"received"`
}

// Serve answers each request until the input ends. An error of handle goes into
// the answer and does not end it.
func Serve[A any](in io.Reader, out io.Writer, handle func(Ask) A) error {
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q Ask
		if err := requests.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading what is to be done: %w", err)
		}
		if err := answers.Encode(handle(q)); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}
