//go:build interop

package differential

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// minimumExchanges keeps the suite from shrinking unnoticed.
const minimumExchanges = 300

// mostUnsteady is how many exchanges may differ once and not again.
const mostUnsteady = 4

var (
	selfCheck = flag.Bool("self", false, "run Envoy on both sides: there must be no difference at all")
	show      = flag.Bool("show", false, "log what Envoy did")
	diffsFile = flag.String("diffs", "", "write every difference to this file, one JSON object a line")
)

// suite is what the groups have in common.
type suite struct {
	mu      sync.Mutex
	ran     int
	entries []*entry
	diffs   *json.Encoder

	listed, unlisted int             // differences
	different        map[string]bool // exchanges that have one
	unsteady         []string        // exchanges that had an unlisted one the first time only
}

func TestDifferential(t *testing.T) {
	groups, err := loadGroups()
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{different: map[string]bool{}}
	if *diffsFile != "" {
		f, err := os.Create(*diffsFile)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s.diffs = json.NewEncoder(f)
		s.diffs.SetEscapeHTML(false)
	}
	if !*selfCheck {
		if s.entries, err = readDifferences("../../docs/differences.md"); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, g := range groups {
		total += len(g.cases)
	}
	if total < minimumExchanges {
		t.Errorf("%d exchanges, want at least %d", total, minimumExchanges)
	}
	t.Run("group", func(t *testing.T) {
		for _, g := range groups {
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				s.group(t, g)
			})
		}
	})
	t.Logf("compared %d of %d exchanges; %d differences in %d exchanges are listed in %d rows of docs/differences.md, %d are not listed",
		s.ran, total, s.listed, len(s.different), len(s.entries), s.unlisted)
	if len(s.unsteady) > 0 {
		t.Logf("%d exchanges differed once and not again, each by chance or by a fault: %q", len(s.unsteady), s.unsteady)
	}
	if len(s.unsteady) > mostUnsteady {
		t.Errorf("%d exchanges are unsteady, want at most %d", len(s.unsteady), mostUnsteady)
	}
	if s.ran < total {
		return // a part cannot tell whether an entry is out of date
	}
	for _, e := range s.entries {
		if !e.used {
			t.Errorf("docs/differences.md:%d: no such difference occurred: remove the row, or what it is about", e.line)
		}
	}
}

func (s *suite) group(t *testing.T, g *group) {
	sides := [2]*side{newSide(t, g, "Envoy", []string{envoyBinary}), nil}
	if *selfCheck {
		sides[1] = newSide(t, g, "Envoy again", []string{envoyBinary})
	} else {
		sides[1] = newSide(t, g, "Xebec", []string{xebecBinary, "proxy"})
	}
	for _, side := range sides {
		if err := side.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(side.stop)
	}
	for i := range g.cases {
		t.Run(g.cases[i].Name, func(t *testing.T) { s.exchange(t, g, &g.cases[i], sides) })
	}
}

func newSide(t *testing.T, g *group, name string, command []string) *side {
	t.Helper()
	s := &side{
		name: name, command: command, dir: t.TempDir(), origins: newOrigins(serverTLS), group: g,
		admin: harness.NewAdmin(t), read: map[string]int{},
	}
	t.Cleanup(s.origins.close)
	format, err := os.ReadFile("testdata/accesslog.json")
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{group: g, dir: s.dir, origins: s.origins, cert: certPEM, key: keyPEM}
	if err := json.Unmarshal(format, &b.logFormat); err != nil {
		t.Fatal(err)
	}
	if err := b.write(filepath.Join(s.dir, "bootstrap.json")); err != nil {
		t.Fatal(err)
	}
	return s
}

// exchange runs one case on both proxies at once and compares. What differs and is
// not listed is run once more: with some hundred processes' threads on a few
// processors a client may come later than its script supposes, and that does not
// happen twice. What does happen twice fails; how many did not is told and bounded.
func (s *suite) exchange(t *testing.T, g *group, x *exchange, sides [2]*side) {
	name := g.name + "/" + x.Name
	all := s.compared(t, name, x, sides)
	if bad := s.unlistedOf(all); len(bad) > 0 {
		for _, d := range bad {
			t.Log("once more, for there differs " + d.String(sides))
		}
		all = s.compared(t, name, x, sides)
		if len(s.unlistedOf(all)) == 0 {
			s.isUnsteady(name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran++
	if s.diffs != nil {
		for _, d := range all {
			if err := s.diffs.Encode(d); err != nil {
				t.Error(err)
			}
		}
	}
	bad := unlisted(all, s.entries)
	if len(all) > 0 {
		s.different[name] = true
	}
	s.unlisted += len(bad)
	s.listed += len(all) - len(bad)
	for _, d := range bad {
		t.Error(d.String(sides))
	}
}

// compared runs one case on both proxies and returns what differs.
func (s *suite) compared(t *testing.T, name string, x *exchange, sides [2]*side) []difference {
	t.Helper()
	var seen [2]*observation
	var errs [2]error
	var wait sync.WaitGroup
	for i, side := range sides {
		wait.Go(func() { seen[i], errs[i] = side.run(x) })
	}
	wait.Wait()
	for i, side := range sides {
		if !side.process.Running() {
			t.Errorf("%s ended during the exchange:\n%s", side.name, side.process.Tail())
			seen[i] = newObservation()
			seen[i].set("proxy.crashed", "yes")
			if err := side.start(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if errs[i] != nil {
			t.Fatalf("%s: %v", side.name, errs[i])
		}
	}
	if *show {
		t.Logf("%s\n%s", sides[0].name, seen[0])
	}
	return compare(name, seen[0], seen[1], x.Ignore)
}

func (s *suite) unlistedOf(all []difference) []difference {
	s.mu.Lock()
	defer s.mu.Unlock()
	return unlisted(all, s.entries)
}

func (s *suite) isUnsteady(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsteady = append(s.unsteady, name)
}

func (d difference) String(sides [2]*side) string {
	return fmt.Sprintf("%s\n  %s: %s\n  %s: %s", d.Field, sides[0].name, d.Envoy, sides[1].name, d.Other)
}
