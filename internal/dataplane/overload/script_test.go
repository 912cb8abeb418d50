package overload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/xebec-proxy/xebec/internal/scripttest"
)

// TestScripts plays pressures to managers, and prints what they have the proxy do
// and which statistics change:
//
//	manager              the configuration, in YAML
//	pressure NAME=VALUE  what monitors say
//	fail NAME            a monitor cannot tell
//
// Proves OV-01. Partly proves OV-03 and OV-05.
func TestScripts(t *testing.T) {
	scripttest.Run(t, func() func(*testing.T, *datadriven.TestData) string {
		var s session
		return s.run
	})
}

type session struct {
	m    *Manager
	out  strings.Builder
	seen map[string]bool
}

func (s *session) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	switch d.Cmd {
	case "manager":
		env, _ := newEnv(t)
		m, err := New(parse(t, d.Input), env)
		if err != nil {
			return err.Error() + "\n"
		}
		s.m, s.seen = m, map[string]bool{}
	case "pressure":
		for _, a := range d.CmdArgs {
			var p float64
			d.ScanArgs(t, a.Key, &p)
			s.answer(t, a.Key, p, nil)
		}
	case "fail":
		s.answer(t, d.CmdArgs[0].Key, 0, fmt.Errorf("no"))
	default:
		d.Fatalf(t, "what is %s?", d.Cmd)
	}
	for _, line := range counted(t, s.m.env.Stats) {
		if !s.seen[line] && !strings.HasPrefix(line, "overload.refresh") {
			s.seen[line] = true
			fmt.Fprintln(&s.out, strings.Replace(line, "envoy.overload_actions.", "", 1))
		}
	}
	s.seen = map[string]bool{}
	for _, line := range counted(t, s.m.env.Stats) {
		s.seen[line] = true
	}
	return scripttest.Said(&s.out)
}

// answer gives the manager a monitor's answer, and takes the actions.
func (s *session) answer(t *testing.T, name string, p float64, err error) {
	for _, r := range s.m.resources {
		if r.name != name {
			continue
		}
		s.m.answered(answer{r, p, err})
		before := [3]uint64{s.m.Levels.StopRequests.share.Load(), s.m.Levels.DisableKeepalive.share.Load(), s.m.Levels.RejectConnections.share.Load()}
		s.m.apply(Hooks{
			StopConnections: func(stop bool) { fmt.Fprintf(&s.out, "stop connections: %v\n", stop) },
			Timeouts:        func(f Factors) { fmt.Fprintf(&s.out, "timeouts: %v\n", f) },
		})
		after := [3]uint64{s.m.Levels.StopRequests.share.Load(), s.m.Levels.DisableKeepalive.share.Load(), s.m.Levels.RejectConnections.share.Load()}
		for i, what := range [...]string{"stop requests", "disable keepalive", "reject connections"} {
			if before[i] != after[i] {
				fmt.Fprintf(&s.out, "%s: %.3f\n", what, float64(after[i])/(1<<64))
			}
		}
		return
	}
	t.Errorf("there is no monitor %s", name)
}
