package cluster

import (
	"fmt"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/xebec-proxy/xebec/internal/fraction"
)

// Drop is load_assignment.policy.drop_overloads (CM-28): the part of requests
// that is answered 503 before a host is chosen. The zero value drops nothing.
type Drop struct {
	// Category names the overload.
	Category string
	// numerator of denominator requests are dropped.
	numerator, denominator uint64
}

// DropDecision is what happens to one request.
type DropDecision uint8

// Decisions about a request.
const (
	// DropNot lets the request through.
	DropNot DropDecision = iota
	// DropOverload answers 503 with flag DO.
	DropOverload
	// DropUnconditional answers 503 with flag UDO: everything is dropped.
	DropUnconditional
)

// Decide says what happens to a request, given a random number. Pure.
func (d Drop) Decide(random uint64) DropDecision {
	switch {
	case d.numerator == 0:
		return DropNot
	case d.numerator >= d.denominator:
		return DropUnconditional
	case random%d.denominator < d.numerator:
		return DropOverload
	default:
		return DropNot
	}
}

// PerMillion is how many of a million requests are dropped.
func (d Drop) PerMillion() uint32 {
	if d.numerator == 0 {
		return 0
	}
	return uint32(d.numerator * 1_000_000 / d.denominator) //nolint:gosec // at most a million
}

func newDrop(list []*endpointv3.ClusterLoadAssignment_Policy_DropOverload) (Drop, error) {
	if len(list) == 0 {
		return Drop{}, nil
	}
	if len(list) > 1 {
		//nolint:staticcheck,revive // Envoy's text
		return Drop{}, fmt.Errorf("Cluster drop_overloads config has %d categories. Envoy only support one.", len(list))
	}
	p := list[0].GetDropPercentage()
	d := Drop{Category: list[0].GetCategory()}
	d.numerator, d.denominator = fraction.Of(p)
	if d.numerator > d.denominator {
		//nolint:staticcheck,revive // Envoy's text
		return Drop{}, fmt.Errorf("Cluster drop_overloads config is invalid. drop_ratio=%g(Numerator %d / Denominator %d). The valid range is 0~1.",
			float64(d.numerator)/float64(d.denominator), d.numerator, d.denominator)
	}
	return d, nil
}
