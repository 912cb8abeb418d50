package overload

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// monitor says how much of a resource is used: 0 for nothing, 1 for all of it, or
// more. It may wait for a file.
type monitor interface{ pressure() (float64, error) }

// injected reads the pressure from a file (injected_resource), which tests write.
type injected struct {
	file string
	read func(string) ([]byte, error)
}

func (m *injected) pressure() (float64, error) {
	b, err := m.read(m.file)
	if err != nil {
		return 0, fmt.Errorf("injected resource: %w", err)
	}
	p, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		return 0, errors.New("failed to parse injected resource pressure")
	}
	if math.IsNaN(p) || p < 0 || p > 1 {
		return 0, errors.New("pressure out of range")
	}
	return p, nil
}
