package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// source is the program that makes changes, in the background of the load's core. It
// has them encoded before a measurement begins.
type source struct {
	*process
	in  io.WriteCloser
	out *bufio.Reader
}

// spare is for how much longer than a measurement takes there are changes: the load's
// program starts and ends as well.
const spare = 10 * time.Second

func (m *machine) startSource(at netip.AddrPort, listeners []netip.AddrPort) (*source, error) {
	p := newProcess("source", m.source, "-listen", at.String(), "-listeners", commas(listeners...), "-upstreams", commas(m.upstream.A1, m.upstream.B1))
	p.cmd.Stdout = nil
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	s := &source{p, in, bufio.NewReader(out)}
	return s, inBackground([]int{m.loadCore}, func() error { return p.start([]int{m.loadCore}) })
}

// stop ends the program, which ends with its input.
func (s *source) stop() {
	_ = s.in.Close()
	s.process.stop()
}

// begin makes changes from now on, at their rate.
func (s *source) begin(during time.Duration) error {
	if _, err := s.ask(fmt.Sprintf("prepare %d", int((during+spare).Seconds()*changesPerSecond))); err != nil {
		return err
	}
	_, err := s.ask(fmt.Sprintf("begin %d", changesPerSecond))
	return err
}

// end makes no more, and tells how many there were so far.
func (s *source) end() (int, error) {
	answer, err := s.ask("end")
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(answer)
	if err != nil {
		return 0, fmt.Errorf("source: it has made %q changes", answer)
	}
	return n, nil
}

func (s *source) ask(command string) (string, error) {
	_, err := fmt.Fprintln(s.in, command)
	answer := ""
	if err == nil {
		answer, err = s.out.ReadString('\n')
	}
	if err != nil {
		_, why := s.pids()
		return "", errors.Join(fmt.Errorf("source: %s: %w", command, err), why)
	}
	answer = strings.TrimSpace(answer)
	if why, failed := strings.CutPrefix(answer, "error: "); failed {
		return "", fmt.Errorf("source: %s", why)
	}
	return answer, nil
}
