package cli

import (
	"errors"
	"fmt"
)

// Exit codes.
const (
	ExitOK       = 0 // it worked
	ExitFailed   = 1 // it did not
	ExitUsage    = 2 // the command line, the environment or the --config file is wrong
	ExitFindings = 3 // what was looked at has errors
	ExitNotYet   = 4 // a condition was not reached in time
)

// exitError is an error that asks for an exit code other than ExitFailed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageErrorf is an error of whoever called the program.
func usageErrorf(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// silentError asks for an exit code after everything has been said.
type silentError struct{ code int }

func (e *silentError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// exitCode is the code an error asks for.
func exitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if e, ok := errors.AsType[*silentError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return ExitFailed
}
