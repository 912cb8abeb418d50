package client

import "time"

// Request is a DiscoveryRequest or DeltaDiscoveryRequest, neutral of variant
// and encoding. Its slices and map are not changed once it is handed out, and
// must not be by who gets it.
type Request struct {
	TypeURL string
	// WithNode says that the request carries the node.
	WithNode bool
	// Version is SotW's version_info: that of the last response accepted.
	Version string
	// Names is SotW's complete list of names, sorted.
	Names []string
	// Subscribe, Unsubscribe and Held (initial_resource_versions, only in the
	// first request of a type on a stream) belong to delta.
	Subscribe, Unsubscribe []string
	Held                   map[string]string
	// Nonce is the response_nonce.
	Nonce string
	// Answer says that the request answers a response; with Error it is a NACK,
	// whose error_detail has code INVALID_ARGUMENT and this message.
	Answer bool
	Error  string
}

// Response is a DiscoveryResponse or DeltaDiscoveryResponse, neutral of variant
// and encoding. Its lists Resources and Removed, and all bodies, may be used again
// once Receive has returned: what is kept of them, in events too, are copies.
type Response struct {
	TypeURL string
	// Version is version_info or system_version_info.
	Version   string
	Nonce     string
	Resources []Raw
	// Removed is delta's removed_resources.
	Removed []string
	// Errors is resource_errors.
	Errors []ResourceError
}

// Raw is one resource as it came: a Resource of delta, the same as a wrapper in
// SotW (GC-59), or a bare Any.
type Raw struct {
	// Name, Version and Aliases are those of the Resource; empty for a bare Any.
	Name, Version string
	Aliases       []string
	// TypeURL and Body are those of the Any. HasBody says that there is one.
	TypeURL string
	Body    []byte
	HasBody bool
	// TTL is the resource's time to live; 0 is for ever.
	TTL time.Duration
}

// ResourceError is one entry of resource_errors: a server's error for a name.
type ResourceError struct {
	Name string
	Status
}

// Status is a google.rpc.Status. It is an error.
type Status struct {
	// Code is a google.rpc.Code.
	Code    int32
	Message string
}

func (s *Status) Error() string { return s.Message }

// Codes that have a meaning here.
const (
	CodeNotFound    int32 = 5
	CodeUnavailable int32 = 14
)

// Kind says what an Event is.
type Kind uint8

// Kinds of events.
const (
	// Changed is a resource that is new or differs from the one before, and is
	// held from now on.
	Changed Kind = iota
	// Unchanged is a resource that came again as it is held. There is an event
	// only if somebody may wait for it: it was subscribed to anew, announced with
	// Await, or an error is over now (XC-41, GC-55). Value is nil.
	Unchanged
	// Missing is a name that does not exist. Err is a Reason, or the server's
	// *Status.
	Missing
	// Rejected is a resource that was refused. What was held before still is.
	// Err is the Checker's error, or that of the response as a whole.
	Rejected
	// ServerError is a name for which the server reported an error, or, with
	// Config.TransientTimeout, did not say anything in time. Err is a *Status.
	// What was held before still is (XC-33).
	ServerError
	// Expired is a resource whose time to live is over. It is held no longer.
	Expired
)

// String is the kind in one word.
func (k Kind) String() string {
	switch k {
	case Changed:
		return "changed"
	case Unchanged:
		return "unchanged"
	case Missing:
		return "missing"
	case Rejected:
		return "rejected"
	case ServerError:
		return "error"
	case Expired:
		return "expired"
	}
	return "unknown"
}

// Reason says why a resource does not exist. It is an error.
type Reason string

// Reasons.
const (
	// ByRemoval: the server said so (removed_resources, or a Resource without a
	// body).
	ByRemoval Reason = "the server says that it does not exist"
	// ByAbsence: a state-of-the-world response without it.
	ByAbsence Reason = "the server's last response no longer holds it"
	// ByTimeout: nothing was heard of it in time.
	ByTimeout Reason = "the server did not send it in time"
	// ByTTL: its time to live is over.
	ByTTL Reason = "its time to live is over"
)

func (r Reason) Error() string { return string(r) }

// Event is what happened to one resource. Names of the xdstp scheme are in
// canonical form.
type Event struct {
	Kind Kind
	// Form is that of the resource if Kind is Changed, Unchanged or Rejected.
	Form Form
	Name string
	// Aliases are other names of the resource (delta).
	Aliases []string
	Version string
	// Body of a Changed or Unchanged event is what the channel holds, and of a
	// Rejected one what was refused for itself; it must not change. In CheckAll it
	// is the response's.
	Body []byte
	// Value is what the Checker made of the body.
	Value any
	Err   error
}

// Outcome is what a response did.
type Outcome struct {
	TypeURL, Version, Nonce string
	// Ignored says that nobody had asked for the type on this stream: the
	// response has no effect and no answer (GC-42).
	Ignored bool
	Events  []Event
	// Err is nil if the response was accepted, else a *Rejection.
	Err error
}
