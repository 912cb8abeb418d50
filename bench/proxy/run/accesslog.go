package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	// leastLine is what a line of the access log has at least, bytes.
	leastLine = 200
	// unwritten is what may be missing from the file, bytes: a proxy collects
	// lines before it writes them.
	unwritten = 4 << 20
)

// checkLog makes sure that a proxy has logged so many requests, and empties
// its file, so that no run fills the disk.
func (in *instance) checkLog(requests float64) error {
	file := filepath.Join(in.dir, "access-h1.log")
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("access log: %w", err)
	}
	if float64(info.Size())+unwritten < requests*leastLine {
		return fmt.Errorf("the access log has %d bytes for %.0f requests", info.Size(), requests)
	}
	return os.Truncate(file, 0)
}
