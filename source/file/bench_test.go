package file

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
)

// signal is a sink that only tells that it was called.
type signal chan snapshot.Batch

func (s signal) Apply(b snapshot.Batch) error { s <- b; return nil }

// BenchmarkLoneChange is the time from the rename of one file to the sink, in
// a directory of many.
func BenchmarkLoneChange(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n, " files"), func(b *testing.B) {
			dir := b.TempDir()
			for i := range n {
				write(b, dir, fmt.Sprint(i, ".yaml"), cluster(fmt.Sprint("c", i), 1))
			}
			s, err := New(dir)
			must(b, err)
			got, done := make(signal), make(chan error)
			ctx, cancel := context.WithCancel(b.Context())
			go func() { done <- s.Run(ctx, got) }()
			<-got
			i := 0
			for b.Loop() {
				b.StopTimer()
				time.Sleep(25 * time.Millisecond) // so that each change comes alone
				i++
				b.StartTimer()
				write(b, dir, "0.yaml", cluster("c0", i+1))
				<-got
			}
			cancel()
			must(b, <-done)
		})
	}
}

// BenchmarkLoad is a load of 1000 files.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	for i := range 1000 {
		write(b, dir, fmt.Sprint(i%10, "/", i, ".yaml"), cluster(fmt.Sprint("c", i), 1))
	}
	for b.Loop() {
		if _, _, err := Load(dir); err != nil {
			b.Fatal(err)
		}
	}
}
