package xdsclient

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xds"
)

// Errors of a [Source], by what has gone wrong. They are reached with
// errors.Is from the [*Error] that a watcher is given.
var (
	// ErrMissing: the server says, or its silence does, that there is no such
	// resource. It may come to be later, and is delivered then (XC-19).
	ErrMissing = errors.New("the resource does not exist")
	// ErrTimeout: the server did not answer in time, where that is not to mean
	// that the resource does not exist ([Policy].TimeoutIsTransient).
	ErrTimeout = errors.New("the server did not answer in time")
	// ErrRejected: the resource was received and is not valid.
	ErrRejected = errors.New("the resource is not valid")
	// ErrRefused: the server said why it does not send the resource.
	ErrRefused = errors.New("the server does not send the resource")
	// ErrExpired: the resource's time to live is over.
	ErrExpired = errors.New("the resource's time to live is over")
	// ErrUnreachable: no server can be reached.
	ErrUnreachable = errors.New("the server cannot be reached")
	// ErrStored: the resource is not from a server but from [Config.Store].
	ErrStored = errors.New("no server has been reached; using what was stored")
	// ErrRedirect: redirects lead from one to the next and to nothing.
	ErrRedirect = errors.New("the redirects lead nowhere")
	// ErrMisused: the watch cannot be served by this source at all.
	ErrMisused = errors.New("the watch cannot be served")
)

// Error says why there is no value for a resource, or what is wrong beside it.
// As a gRPC status its code is UNAVAILABLE, whatever the server's was, so that a
// control plane's codes never look like those of a service (GC-65).
type Error struct {
	// Reason is one of the Err… values of this package.
	Reason error
	// TypeURL and Name are the resource's.
	TypeURL, Name string
	// Server and Node are whom the source spoke to, and as whom (GC-66). Empty
	// if neither matters.
	Server, Node string
	// Code is the server's status code for ErrRefused, OK otherwise.
	Code codes.Code
	// Err is the cause in detail; may be nil.
	Err error

	at      time.Time
	version string // of what was rejected
}

// Error is `Cluster "a": the resource does not exist: not sent within 15s
// (server "main", node "n")`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(xds.Kind(e.TypeURL))
	if e.Name != "" {
		b.WriteString(" " + strconv.Quote(e.Name))
	}
	b.WriteString(": " + e.Reason.Error())
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	switch {
	case e.Server != "" && e.Node != "":
		b.WriteString(" (server " + strconv.Quote(e.Server) + ", node " + strconv.Quote(e.Node) + ")")
	case e.Server != "":
		b.WriteString(" (server " + strconv.Quote(e.Server) + ")")
	}
	return b.String()
}

// Is reports whether target is the error's reason.
func (e *Error) Is(target error) bool { return target == e.Reason }

// is is Is for an error that may be nil.
func (e *Error) is(reason error) bool { return e != nil && e.Is(reason) }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// GRPCStatus is UNAVAILABLE with the error's text.
func (e *Error) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }
