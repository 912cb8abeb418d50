package meter

import (
	"os"
	"testing"
	"time"
)

func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func TestCPUCountsWhatAProcessUses(t *testing.T) {
	before, err := Own()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for time.Since(start) < 10*time.Second {
		spin(20 * time.Millisecond)
		after, err := Own()
		if err != nil {
			t.Fatal(err)
		}
		if used := after - before; used > 40*time.Millisecond {
			if used > 8*time.Since(start) {
				t.Fatalf("used %s in %s", used, time.Since(start))
			}
			return
		}
	}
	t.Fatal("no CPU time was counted")
}

func TestOfNoSuchProcess(t *testing.T) {
	gone := []int{1 << 22}
	if _, err := CPU(gone); err == nil {
		t.Error("CPU time of a process that does not exist")
	}
	if _, err := Resident(gone); err == nil {
		t.Error("memory of a process that does not exist")
	}
	if _, err := Tree(gone[0]); err == nil {
		t.Error("children of a process that does not exist")
	}
}

func TestResidentSeesWhatIsTouched(t *testing.T) {
	pids := []int{os.Getpid()}
	before, err := Resident(pids)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	after, err := Resident(pids)
	if err != nil {
		t.Fatal(err)
	}
	if grown := after - before; grown < 48<<20 || grown > 128<<20 {
		t.Errorf("64 MB were touched, %d bytes are seen", grown)
	}
	if b[0] != 1 {
		t.Fatal("unreachable: it keeps the memory")
	}
}

func TestBusyLeavesIdleAndWaitingOut(t *testing.T) {
	const stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 1 2 3 1000 1000 4 5 6 0 0\ncpu1 100 0 0 7 7 0 0 0 0 0\n"
	for core, want := range []time.Duration{21 * tick, 100 * tick} {
		if got, err := busy(stat, core); err != nil || got != want {
			t.Errorf("core %d: %s, %v; want %s", core, got, err, want)
		}
	}
	if _, err := busy(stat, 2); err == nil {
		t.Error("a core that there is not")
	}
}
