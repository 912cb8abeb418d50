package grpcconn

import (
	"syscall"
	"unsafe"
)

// rawRead and rawWrite do not tell the runtime of the call, which would wake its
// monitor's thread for each message on a machine at rest. The socket must be one
// that does not wait, as those of package net are, and b not be empty.
func rawRead(fd uintptr, b []byte) (int, syscall.Errno) {
	return result(syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))))
}

func rawWrite(fd uintptr, b []byte) (int, syscall.Errno) {
	return result(syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b))))
}

func result(n, _ uintptr, e syscall.Errno) (int, syscall.Errno) {
	if e != 0 {
		return 0, e
	}
	return int(n), 0 //nolint:gosec // no more than was asked for
}
