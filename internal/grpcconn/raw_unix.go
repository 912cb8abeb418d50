//go:build unix && !linux

package grpcconn

import (
	"errors"
	"syscall"
)

// rawRead and rawWrite are calls on a socket that does not wait, as those of
// package net are.
func rawRead(fd uintptr, b []byte) (int, syscall.Errno) { return result(syscall.Read(int(fd), b)) }

func rawWrite(fd uintptr, b []byte) (int, syscall.Errno) { return result(syscall.Write(int(fd), b)) }

func result(n int, err error) (int, syscall.Errno) {
	e, ok := errors.AsType[syscall.Errno](err)
	if err != nil && !ok {
		e = syscall.EIO
	}
	return n, e
}
