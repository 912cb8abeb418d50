package wire

import (
	"fmt"

	"github.com/xebec-proxy/xebec/xds"
)

// Variant is the protocol variant of a stream.
type Variant uint8

// Variants.
const (
	Sotw Variant = iota
	Delta
)

// String is the word of the protocol's documents.
func (v Variant) String() string {
	if v == Delta {
		return "delta"
	}
	return "sotw"
}

// Status is a client's or a server's error, as google.rpc.Status.
type Status struct {
	Code    Code
	Message string
}

// Request is a DiscoveryRequest or DeltaDiscoveryRequest without its node.
type Request struct {
	TypeURL string
	// Version is SotW's version_info.
	Version string
	Nonce   string
	// Names is SotW's complete list of names. Digest, if not 0, is a hash of
	// the list: an equal one means an equal list, and Names is not read then.
	Names  []string
	Digest uint64
	// Subscribe, Unsubscribe and Initial belong to delta.
	Subscribe, Unsubscribe []string
	Initial                map[string]string
	// Error is the error_detail of a NACK, nil otherwise.
	Error *Status
}

// Response is what a DiscoveryResponse or DeltaDiscoveryResponse is made of.
type Response struct {
	TypeURL, Version, Nonce string
	// Resources is only read; streams that send the same share it.
	Resources []*xds.Resource
	// Removed is delta's removed_resources.
	Removed []string
	// Aliases are names that resources were asked for by, beside their own
	// aliases, by their names (XN-23). Missing are those that lead to nothing:
	// resources without a body, which have themselves as their alias (XN-24).
	Aliases map[string][]string
	Missing []string
	// Errors is sent as resource_errors.
	Errors []NamedError
}

// NamedError is one entry of resource_errors.
type NamedError struct {
	Name string
	Status
}

// Answer says what a request was.
type Answer uint8

// Answers.
const (
	// Opened is the first request for its type on the stream.
	Opened Answer = iota
	// Updated is a request that only changes the subscription, or nothing.
	Updated
	// Acked and Nacked answer a response.
	Acked
	Nacked
	// Stale carries a nonce that is not the last one; in SotW it is ignored.
	Stale
)

// Outcome is what a request did.
type Outcome struct {
	Answer Answer
	// Added and Removed are the names that the subscription gained and lost;
	// "*" stands for the wildcard.
	Added, Removed []string
	// Type is the type of the resources that the request is about, which is not
	// the URL asked for if that is another form of the type.
	Type string
	// Settled is the response that an ACK or NACK answers.
	Settled *Sent
	// Rejected lists the resources a NACK is about.
	Rejected []Rejected
}

// Rejected is a resource that a client refused. Resource is nil for a removal.
type Rejected struct {
	Name     string
	Resource *xds.Resource
	// Blamed says that the client's message names this resource, or that it
	// names none, so that all of the response is meant.
	Blamed bool
}

// Code is a google.rpc.Code.
type Code int32

// Codes this package uses.
const (
	InvalidArgument   Code = 3
	NotFound          Code = 5
	PermissionDenied  Code = 7
	ResourceExhausted Code = 8
	Internal          Code = 13
)

// StreamError ends a stream with a status.
type StreamError struct {
	Code Code
	Msg  string
}

func (e *StreamError) Error() string { return e.Msg }

func invalid(format string, args ...any) error {
	return &StreamError{InvalidArgument, fmt.Sprintf(format, args...)}
}

func exhausted(format string, args ...any) error {
	return &StreamError{ResourceExhausted, fmt.Sprintf(format, args...)}
}
