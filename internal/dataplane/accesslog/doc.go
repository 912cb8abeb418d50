// Package accesslog writes a line for each stream or connection that ends:
// which ones, in which form, and to which file (config/accesslog/v3).
//
// A worker formats a line into a buffer of its own and hands full buffers to the
// goroutine that writes the file, so that no stream ever waits for a disk, and
// no line is cut or mixed with another. What a stalled disk cannot take is
// dropped and counted (AL-04).
package accesslog

// Stat is a statistic of the files, below "filesystem.".
type Stat uint8

// The statistics. TotalBuffered is a gauge, the others are counters. Dropped is
// Xebec's own: Envoy has no bound on what it keeps for a stalled disk.
const (
	WriteBuffered  Stat = iota // lines given to a file
	WriteCompleted             // writes done
	WriteFailed                // writes that failed, and whose lines are lost
	FlushedByTimer             // writes because of the flush interval
	ReopenFailed               // files that could not be opened again
	TotalBuffered              // bytes that wait for the disk
	Dropped                    // lines dropped since too many bytes waited
	numStats
)

// Name is the statistic's name below "filesystem.".
func (s Stat) Name() string {
	return [numStats]string{
		"write_buffered", "write_completed", "write_failed", "flushed_by_timer",
		"reopen_failed", "write_total_buffered", "lines_dropped",
	}[s]
}

// Stats lists all statistics.
func Stats() []Stat {
	all := make([]Stat, numStats)
	for i := range all {
		all[i] = Stat(i)
	}
	return all
}

// Counts takes the statistics; any goroutine calls it.
type Counts interface {
	// Add adds to a counter, or moves the gauge.
	Add(s Stat, n int64)
}

type noCounts struct{}

func (noCounts) Add(Stat, int64) {}
