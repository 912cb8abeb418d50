package tlsio

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
)

// sentinel is the type of errors that are compared, not looked into.
type sentinel string

func (e sentinel) Error() string { return string(e) }

// ErrAgain says that there is nothing to read until more was fed.
const ErrAgain = sentinel("tls: nothing to read yet")

const (
	errNotOpen        = sentinel("tls: write before the end of the handshake: wait for done")
	errTransportEnded = sentinel("connection closed during the TLS handshake")
)

// FailureClass names the counter of Envoy's `ssl.` tree that a failure moves
// (TS-20); empty if it moves none.
type FailureClass string

// The classes. Each failed handshake moves exactly one; one that ended because the
// transport did, or because the caller gave up, moves none.
const (
	ClassNone              FailureClass = ""
	ClassConnectionError   FailureClass = "connection_error"
	ClassVerifyNoCert      FailureClass = "fail_verify_no_cert"
	ClassVerifyError       FailureClass = "fail_verify_error"
	ClassVerifySAN         FailureClass = "fail_verify_san"
	ClassVerifyCertificate FailureClass = "fail_verify_cert_hash"
)

// Failure is why a handshake or an established session failed.
type Failure struct {
	// Class is the counter to move.
	Class FailureClass
	// Reason is for %DOWNSTREAM_TRANSPORT_FAILURE_REASON% and its upstream
	// twin (TS-21). It holds no secrets.
	Reason string
	// Err is the cause.
	Err error
}

func (f *Failure) Error() string { return f.Reason }

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Err }

// FailureReason is why the session failed, empty if it has not. A certificate
// that was refused or is missing reads as in Envoy, everything else is in
// Envoy's frame and in the words of crypto/tls. Envoy's operators print its
// spaces as underscores.
func (s *Session) FailureReason() string {
	if s.failure == nil {
		return ""
	}
	return s.failure.Reason
}

// Failure is why the session failed, nil if it has not.
func (s *Session) Failure() *Failure { return s.failure }

// verifyError is what the check of a peer's certificate answers.
type verifyError struct {
	class  FailureClass
	reason string
}

func (e *verifyError) Error() string { return e.reason }

// crypto/tls has no value for this error; TestClientCertificates fails if the
// text changes.
const noClientCertificate = "tls: client didn't provide a certificate"

const noCertificateReason = "268435648:SSL routines:OPENSSL_internal:PEER_DID_NOT_RETURN_A_CERTIFICATE:peer did not provide required client certificate"

// tlsError frames a reason as Envoy does.
func tlsError(text string) string { return "TLS_error:|" + text + ":TLS_error_end" }

// failureOf sorts an error of crypto/tls or of our own callbacks.
func failureOf(err error) *Failure {
	var (
		verify *verifyError
		op     *net.OpError
		record tls.RecordHeaderError
	)
	f := &Failure{Class: ClassConnectionError, Err: err}
	switch {
	case errors.As(err, &verify):
		f.Class = verify.class
		f.Reason = tlsError("268435581:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED:verify cert failed: " + verify.reason)
		if verify.class == ClassVerifyNoCert {
			f.Reason = tlsError(noCertificateReason)
		}
	case err.Error() == noClientCertificate:
		f.Class = ClassVerifyNoCert
		f.Reason = tlsError(noCertificateReason)
	case errors.As(err, &record), errors.As(err, &op), isTLSError(err):
		f.Reason = tlsError(err.Error())
	case errors.Is(err, errTransportEnded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		f.Class = ClassNone
		f.Reason = string(errTransportEnded)
	default:
		f.Class = ClassNone
		f.Reason = err.Error()
	}
	return f
}

// isTLSError tells the errors of crypto/tls, all of which begin alike, from
// the reasons that callers give for ending a session.
func isTLSError(err error) bool {
	var (
		alert  tls.AlertError
		policy policyError
	)
	return len(err.Error()) > 5 && err.Error()[:5] == "tls: " || errors.As(err, &alert) || errors.As(err, &policy)
}

// policyError is a handshake that our configuration forbids where crypto/tls
// would go on.
type policyError string

func (e policyError) Error() string { return string(e) }
