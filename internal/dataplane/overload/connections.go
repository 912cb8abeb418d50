package overload

import (
	"math"
	"sync/atomic"
)

// Connections counts the downstream connections of all listeners and workers and
// limits them (OV-02, OV-06). Safe for concurrent use.
//
// There are two limits, as in Envoy. That of the monitor
// envoy.resource_monitors.global_downstream_max_connections counts the connections
// of listeners that it is for. That of the runtime key, which is deprecated, counts
// all, and is in force only without the monitor.
type Connections struct {
	most    int64 // of the monitor; 0 without
	counted atomic.Int64
	refused atomic.Uint64 // by the monitor

	open    atomic.Int64 // all
	runtime atomic.Int64 // the most of them, or noLimit
}

const noLimit = math.MaxInt64

// NewConnections counts without a limit.
func NewConnections() *Connections {
	c := &Connections{}
	c.runtime.Store(noLimit)
	return c
}

// SetRuntime sets the limit of the runtime key RuntimeKey; ok is false without.
func (c *Connections) SetRuntime(most uint64, ok bool) {
	if !ok || most > noLimit {
		most = noLimit
	}
	c.runtime.Store(int64(most)) //nolint:gosec // it was looked at
}

// RuntimeKey is the runtime key that limits all connections.
const RuntimeKey = "overload.global_downstream_max_connections"

// Enter counts a connection that was accepted; false if that is one too many, which
// is then not counted. exempt are those of listeners with ignore_global_conn_limit.
func (c *Connections) Enter(exempt bool) bool {
	n := c.open.Add(1)
	switch {
	case exempt:
		return true
	case c.most > 0:
		if c.counted.Add(1) <= c.most {
			return true
		}
		c.counted.Add(-1)
		c.refused.Add(1)
	case n <= c.runtime.Load():
		return true
	}
	c.open.Add(-1)
	return false
}

// Leave is the end of a connection that entered, with the same word.
func (c *Connections) Leave(exempt bool) {
	c.open.Add(-1)
	if !exempt && c.most > 0 {
		c.counted.Add(-1)
	}
}

// pressure is how much of the monitor's limit is used.
func (c *Connections) pressure() float64 { return float64(c.counted.Load()) / float64(c.most) }
