//go:build interop

package differential

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// side is one of the two proxies of a group, with its upstream servers.
type side struct {
	name    string
	command []string
	dir     string
	origins *origins
	group   *group

	process *harness.Process
	admin   *harness.Admin
	ports   map[string]int // of listeners
	stats   map[string]int // as they were after the last exchange
	read    map[string]int // how much of each log file
}

const startPatience = 20 * time.Second

// start writes the bootstrap if there is none yet and runs the proxy.
func (s *side) start() error {
	config := filepath.Join(s.dir, "bootstrap.json")
	addressFile := filepath.Join(s.dir, "admin")
	_ = os.Remove(addressFile)
	args := append([]string{}, s.command[1:]...)
	args = append(args, "-c", config, "--disable-hot-restart", "--concurrency", "1", "--drain-time-s", "1", "--log-level", "error",
		"--admin-address-path", addressFile, "--file-flush-interval-msec", "10")
	process, err := harness.Launch(s.name, exec.Command(s.command[0], args...), filepath.Join(s.dir, "output"))
	if err != nil {
		return err
	}
	s.process = process
	if err := s.ready(addressFile); err != nil {
		s.stop()
		return fmt.Errorf("%s: %w\n%s", s.name, err, s.process.Tail())
	}
	return nil
}

// stop ends the process, by force if it must.
func (s *side) stop() { s.process.Terminate(5 * time.Second) }

// ready waits until the listeners accept, and finds their ports.
func (s *side) ready(addressFile string) error {
	deadline := time.Now().Add(startPatience)
	for {
		err := s.tryReady(addressFile)
		switch {
		case err == nil:
			return nil
		case !s.process.Running():
			return errors.New("ended at start")
		case time.Now().After(deadline):
			return fmt.Errorf("not ready after %v: %w", startPatience, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *side) tryReady(addressFile string) error {
	address, err := os.ReadFile(addressFile)
	if err != nil {
		return err
	}
	s.admin.URL = "http://" + strings.TrimSpace(string(address))
	if err := s.admin.Live(); err != nil {
		return err
	}
	list, err := s.admin.Page("/listeners")
	if err != nil {
		return err
	}
	s.ports = map[string]int{}
	for line := range strings.Lines(list) {
		name, address, ok := strings.Cut(strings.TrimSpace(line), "::")
		port, err := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
		if ok && err == nil {
			s.ports[name] = port
		}
	}
	for name := range s.group.Listeners {
		if s.ports[name] == 0 {
			return fmt.Errorf("/listeners has no port of %s:\n%s", name, list)
		}
	}
	s.stats, err = s.readStats()
	return err
}

// readStats reads what is compared.
func (s *side) readStats() (map[string]int, error) {
	return s.admin.Numbers(`usedonly&filter=^(http|cluster|listener|tcp|tls_inspector|http_inspector|proxy_proto|vhost)\.`)
}

var (
	downstreamActive = regexp.MustCompile(`^(http|listener)\.[^.]+\.downstream_(cx|rq)_active$`)
	upstreamActive   = regexp.MustCompile(`^cluster\.[^.]+\.upstream_(cx|rq)_active$`)
	requestsTotal    = regexp.MustCompile(`^http\.[^.]+\.downstream_rq_total$`)
)

// run does an exchange and returns what was seen of it.
func (s *side) run(x *exchange) (*observation, error) {
	o := newObservation()
	for port, name := range s.origins.ports {
		o.port(port, name)
	}
	for name, port := range s.ports {
		o.port(port, "listener "+name)
	}
	s.origins.begin(x)
	port, ok := s.ports[x.Listener]
	if !ok {
		return nil, fmt.Errorf("no listener %q", x.Listener)
	}
	run := runH1
	if x.Client == "h2" {
		run = runH2
	}
	if err := run(port, x, o); err != nil {
		return nil, err
	}
	for n, seen := range s.settle(o, x.Lines) {
		o.sighting(n+1, seen)
	}
	o.neutralise()
	return o, nil
}

// settle waits until the proxy is done with everything, and records statistics
// and logs, which have lines lines or one for each request. It ends the upstream
// connections that the proxy has kept.
func (s *side) settle(o *observation, lines int) []*sighting {
	if !s.idle(downstreamActive) {
		o.set("proxy.stuck", "downstream connections or requests stay active")
	}
	time.Sleep(20 * time.Millisecond) // for what is on its way to the servers
	s.origins.hangUp()
	if !s.idle(upstreamActive) {
		o.set("proxy.stuck", "upstream connections or requests stay active")
	}
	after, err := s.steady()
	if err != nil {
		o.set("proxy.admin", err.Error())
		after = s.stats
	}
	o.stats(s.stats, after)
	requests := 0
	for name, value := range after {
		if requestsTotal.MatchString(name) && !strings.HasPrefix(name, "http.admin.") {
			requests += value - s.stats[name]
		}
	}
	s.stats = after
	lines = max(lines, requests)
	o.logs(s.lines("access.json", lines), s.lines("access.txt", lines))
	return s.origins.sightings()
}

// idle waits until no gauge of a kind is higher than it was before the
// exchange.
func (s *side) idle(kind *regexp.Regexp) bool {
	deadline := time.Now().Add(patience)
	for {
		stats, err := s.readStats()
		if err != nil {
			return true // steady says so too
		}
		busy := false
		for name, value := range stats {
			busy = busy || value > s.stats[name] && kind.MatchString(name) && !strings.Contains(name, ".admin.")
		}
		if !busy {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// steady reads the statistics until two readings are equal.
func (s *side) steady() (map[string]int, error) {
	before, err := s.readStats()
	for range 20 {
		if err != nil {
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
		var after map[string]int
		if after, err = s.readStats(); err != nil {
			return nil, err
		}
		same := true
		for name, value := range after {
			same = same && (value == before[name] || notCompared.MatchString(name))
		}
		if same {
			break
		}
		before = after
	}
	return before, err
}

// lines returns the new lines of a log file: as soon as there are as many as
// expected, or after a while.
func (s *side) lines(name string, expected int) []string {
	deadline := time.Now().Add(400 * time.Millisecond)
	for {
		data, _ := os.ReadFile(filepath.Join(s.dir, name))
		fresh := data[min(s.read[name], len(data)):]
		complete := fresh[:bytes.LastIndexByte(fresh, '\n')+1]
		if n := bytes.Count(complete, []byte("\n")); n >= expected && n > 0 || time.Now().After(deadline) {
			s.read[name] += len(complete)
			if len(complete) == 0 {
				return nil
			}
			return strings.Split(strings.TrimSuffix(string(complete), "\n"), "\n")
		}
		if expected == 0 {
			deadline = deadline.Add(-100 * time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
