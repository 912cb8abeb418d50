package overload

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// cgroup compares the memory of the process's control group with its limit
// (cgroup_memory).
type cgroup struct {
	usage, limit string // files
	most         uint64 // max_memory_bytes; 0 without
	read         func(string) ([]byte, error)
}

// newCgroup finds the files: of version 2, or else of version 1.
func newCgroup(most uint64, read func(string) ([]byte, error)) (*cgroup, error) {
	for _, f := range [...][2]string{
		{"/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max"},
		{"/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
	} {
		_, err := read(f[0])
		if err == nil {
			_, err = read(f[1])
		}
		if err == nil {
			return &cgroup{usage: f[0], limit: f[1], most: most, read: read}, nil
		}
	}
	return nil, errors.New("No supported cgroup memory implementation found") //nolint:staticcheck // Envoy's text
}

func (m *cgroup) pressure() (float64, error) {
	used, err := m.number(m.usage)
	if err != nil {
		return 0, err
	}
	limit, err := m.number(m.limit)
	if err != nil {
		return 0, err
	}
	if m.most > 0 {
		limit = min(limit, m.most)
	}
	switch limit {
	case math.MaxUint64:
		return 0, nil
	case 0:
		return 0, fmt.Errorf("%s: the limit is 0", m.limit)
	}
	return float64(used) / float64(limit), nil
}

// number reads a file with a number of bytes; without a limit it is the largest.
func (m *cgroup) number(file string) (uint64, error) {
	b, err := m.read(file)
	if err != nil {
		return 0, fmt.Errorf("Unable to read memory stats file at %s", file) //nolint:staticcheck // Envoy's text
	}
	s := strings.TrimSpace(string(b))
	switch s {
	case "":
		return 0, fmt.Errorf("Empty memory stats file at %s", file) //nolint:staticcheck // Envoy's text
	case "max", "-1":
		return math.MaxUint64, nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("Unable to parse memory stats from file at %s", file) //nolint:staticcheck // Envoy's text
	}
	return n, nil
}
