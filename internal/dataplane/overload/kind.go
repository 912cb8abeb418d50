package overload

import "strings"

// kind is what an action does.
type kind uint8

const (
	stopRequests kind = iota
	disableKeepalive
	stopConnections
	rejectConnections
	shrinkHeap
	reduceTimeouts
)

const reserved = "envoy.overload_actions."

// kindOf is the kind of an action's well-known name.
func kindOf(name string) (kind, bool) {
	short, ok := strings.CutPrefix(name, reserved)
	if !ok {
		return 0, false
	}
	switch short {
	case "stop_accepting_requests":
		return stopRequests, true
	case "disable_http_keepalive":
		return disableKeepalive, true
	case "stop_accepting_connections":
		return stopConnections, true
	case "reject_incoming_connections":
		return rejectConnections, true
	case "shrink_heap":
		return shrinkHeap, true
	case "reduce_timeouts":
		return reduceTimeouts, true
	}
	return 0, false
}
