package overload

import (
	"time"

	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
)

// Timer is a timeout that reduce_timeouts can make shorter.
type Timer uint8

// The timers (ScaleTimersOverloadActionConfig.TimerType).
const (
	ConnectionIdle Timer = iota
	StreamIdle
	Handshake
	ConnectionMax
	StreamFlush
	timers
)

// timerOf is the timer of a type that is known.
func timerOf(t overloadv3.ScaleTimersOverloadActionConfig_TimerType) (Timer, bool) {
	switch t {
	case overloadv3.ScaleTimersOverloadActionConfig_HTTP_DOWNSTREAM_CONNECTION_IDLE:
		return ConnectionIdle, true
	case overloadv3.ScaleTimersOverloadActionConfig_HTTP_DOWNSTREAM_STREAM_IDLE:
		return StreamIdle, true
	case overloadv3.ScaleTimersOverloadActionConfig_TRANSPORT_SOCKET_CONNECT:
		return Handshake, true
	case overloadv3.ScaleTimersOverloadActionConfig_HTTP_DOWNSTREAM_CONNECTION_MAX:
		return ConnectionMax, true
	case overloadv3.ScaleTimersOverloadActionConfig_HTTP_DOWNSTREAM_STREAM_FLUSH:
		return StreamFlush, true
	}
	return 0, false
}

// least is what a timeout becomes when its action is saturated: a time, or a share
// of what it is at rest.
type least struct {
	time  time.Duration
	share float64
}

func (l *least) of(d time.Duration) time.Duration {
	if l.share > 0 {
		return time.Duration(l.share * float64(d))
	}
	return min(l.time, d)
}

// Timeouts are how long a worker waits (reduce_timeouts). They are confined to the
// worker, so that it knows by which level a timer was set that is running. A nil
// Timeouts changes nothing.
type Timeouts struct {
	least  [timers]*least // nil: not reduced
	level  [timers]float64
	before [timers]float64 // while timers are set again
}

// Of is how long to wait for what is waited for d at rest.
func (t *Timeouts) Of(k Timer, d time.Duration) time.Duration {
	if t == nil {
		return d
	}
	return t.at(k, d, t.level[k])
}

func (t *Timeouts) at(k Timer, d time.Duration, level float64) time.Duration {
	l := t.least[k]
	if l == nil || level == 0 {
		return d
	}
	low := l.of(d)
	return low + time.Duration(float64(d-low)*(1-level))
}

// Change puts other levels in force. Timers that run are then to be set anew: again
// is called once for that.
func (t *Timeouts) Change(to [timers]float64, again func()) {
	t.before, t.level = t.level, to
	again()
}

// Left is how long a timer has to run, within Change, that was set by [Timeouts.Of]
// and had this long to run.
func (t *Timeouts) Left(k Timer, d, left time.Duration) time.Duration {
	gone := t.at(k, d, t.before[k]) - left
	return max(t.Of(k, d)-gone, 0)
}
