//go:build unix

package proxy_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkOneEndpointOfMany changes one endpoint among many clusters. The work
// is that of the assignment, whatever there is beside it.
func BenchmarkOneEndpointOfMany(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := start(b, byHeader, newSource().by)
			res := r.Resources()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			began := time.Now()
			for i := range n {
				name := fmt.Sprint("cluster-", i)
				must(b, res.SetCluster(edsCluster(name, ""), "1"))
				must(b, res.SetEndpoints(nil, assignment(name, "127.0.0.1:1000", "127.0.0.1:1001"), "1"))
			}
			loaded := time.Since(began)
			runtime.GC()
			runtime.ReadMemStats(&after)
			cpu := used()
			i := 0
			for b.Loop() {
				i++
				must(b, res.SetEndpoints(nil, assignment("cluster-7", "127.0.0.1:1000", fmt.Sprintf("127.0.0.1:%d", 2000+i%100)), fmt.Sprint(i)))
			}
			b.ReportMetric(float64((used()-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(loaded.Microseconds())/float64(n), "µs/cluster")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n)/1024, "KB/cluster")
		})
	}
}

// used is the processor time of this process.
func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
