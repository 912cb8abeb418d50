// Package report is what one run of the load program measured.
package report

// Load is one run of the load program against one server.
type Load struct {
	Variant  string `json:"variant"`
	Streams  int    `json:"streams"`
	Clusters int    `json:"clusters"`
	EDS      bool   `json:"eds"`
	Stuck    int    `json:"stuck,omitempty"`

	First   First             `json:"first"`
	Changes map[string]Change `json:"changes"`
	Restart *Restart          `json:"restart,omitempty"`
	// PeakMB is the server's largest resident set in the run, IdleMB the
	// resident set at the end, after a garbage collection.
	PeakMB float64 `json:"peak_mb"`
	IdleMB float64 `json:"idle_mb"`
}

// First is the time and cost from the first dial until every stream held the
// first state.
type First struct {
	Milliseconds float64 `json:"ms"`
	Cost
	// Megabytes is what all streams together received.
	Megabytes float64 `json:"mb"`
	// PeakMB is the server's largest resident set until then.
	PeakMB float64 `json:"peak_mb"`
}

// Change is the time and cost of changing one resource, for each of several
// rounds.
type Change struct {
	// Last is the time in milliseconds from publication to the last stream
	// having received the change, by round; Median the same to the middle
	// stream; Publish how long the publishing call took.
	Last    []float64 `json:"last_ms"`
	Median  []float64 `json:"median_ms"`
	Publish []float64 `json:"publish_ms"`
	// Cost is per change.
	Cost
	// Resources is how many resources of the changed kind the response held
	// that brought the change to a stream, on average.
	Resources float64 `json:"resources_per_stream"`
	// Responses is how many responses of any kind a stream received for a
	// change, Bytes how many bytes.
	Responses float64 `json:"responses_per_stream"`
	Bytes     float64 `json:"bytes_per_stream"`
}

// Restart is the time and cost of serving all streams again after a restart.
// Every stream says that it holds everything.
type Restart struct {
	// Milliseconds is from the new server's listening to the last stream
	// having been answered.
	Milliseconds float64 `json:"ms"`
	Cost
	// Resent is how many resources the server sent again, for a stream.
	Resent float64 `json:"resent_per_stream"`
	PeakMB float64 `json:"peak_mb"`
	// Change is a change made after the restart: it reached every stream.
	Change Change `json:"change"`
}

// Cost is what a step took.
type Cost struct {
	// ServerCPU and LoadCPU are user and system time in milliseconds.
	ServerCPU float64 `json:"server_cpu_ms"`
	LoadCPU   float64 `json:"load_cpu_ms"`
	// OtherCPU is what the rest of the machine used in the same time, in
	// cores: much of it makes a measurement doubtful.
	OtherCPU float64 `json:"other_cores"`
	// AllocMB is what the server allocated; Mallocs counts the objects.
	AllocMB float64 `json:"alloc_mb"`
	Mallocs float64 `json:"mallocs"`
}
