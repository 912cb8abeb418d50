package file

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openForWriting reports whether some process has the file open for writing.
// known is false if the system does not tell: the file is someone else's, or
// its file system has no leases.
//
// A read lease is refused exactly while there is a writer. It is given back in
// the same breath: a writer that opens the file in between is held up for no
// longer than that.
func openForWriting(f *os.File) (busy, known bool) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false, false
	}
	cerr := raw.Control(func(fd uintptr) {
		_, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK)
		if err == nil {
			_, err = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	switch {
	case cerr != nil:
		return false, false
	case errors.Is(err, unix.EAGAIN):
		return true, true
	}
	return false, err == nil
}
