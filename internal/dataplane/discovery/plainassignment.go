package discovery

import (
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// plainAssignment reads an assignment that has nothing but addresses with ports, weights,
// health, localities and priorities, as most have, for a fraction of what reading any
// message takes. Of others, and of what is no assignment, it is nil.
func plainAssignment(body []byte) *endpointv3.ClusterLoadAssignment {
	la := &endpointv3.ClusterLoadAssignment{}
	ok := eachField(body, func(n protowire.Number, v value) bool {
		switch n {
		case 1:
			return v.text(&la.ClusterName)
		case 2:
			l := plainLocality(v)
			la.Endpoints = append(la.Endpoints, l)
			return l != nil
		}
		return false
	})
	if !ok {
		return nil
	}
	return la
}

func plainLocality(b value) *endpointv3.LocalityLbEndpoints {
	if b.kind != protowire.BytesType {
		return nil
	}
	n := 0
	if !eachField(b.bytes, func(f protowire.Number, _ value) bool {
		if f == 2 {
			n++
		}
		return true
	}) {
		return nil
	}
	l := &endpointv3.LocalityLbEndpoints{}
	room := make([]plainEndpoint, n) // all at once
	if n > 0 {
		l.LbEndpoints = make([]*endpointv3.LbEndpoint, 0, n)
	}
	if !eachField(b.bytes, func(n protowire.Number, v value) bool {
		switch n {
		case 1:
			if l.Locality != nil {
				return false // to be merged
			}
			l.Locality = &corev3.Locality{}
			return v.locality(l.Locality)
		case 2:
			e := &room[len(l.LbEndpoints)]
			l.LbEndpoints = append(l.LbEndpoints, &e.lb)
			return e.read(v)
		case 3:
			if l.LoadBalancingWeight != nil {
				return false
			}
			l.LoadBalancingWeight = &wrapperspb.UInt32Value{}
			return v.wrapped(l.LoadBalancingWeight)
		case 5:
			return v.number(&l.Priority)
		}
		return false
	}) {
		return nil
	}
	return l
}

// plainEndpoint is an endpoint with all the messages in it.
type plainEndpoint struct {
	lb       endpointv3.LbEndpoint
	of       endpointv3.LbEndpoint_Endpoint
	endpoint endpointv3.Endpoint
	address  corev3.Address
	kind     corev3.Address_SocketAddress
	socket   corev3.SocketAddress
	port     corev3.SocketAddress_PortValue
	weight   wrapperspb.UInt32Value
}

func (e *plainEndpoint) read(b value) bool {
	return b.message(func(n protowire.Number, v value) bool {
		switch n {
		case 1:
			if e.lb.HostIdentifier != nil {
				return false
			}
			e.of.Endpoint = &e.endpoint
			e.lb.HostIdentifier = &e.of
			return v.message(e.inEndpoint)
		case 2:
			e.lb.HealthStatus = corev3.HealthStatus(int32(v.varint)) //nolint:gosec // as protobuf does
			return v.kind == protowire.VarintType
		case 4:
			if e.lb.LoadBalancingWeight != nil {
				return false
			}
			e.lb.LoadBalancingWeight = &e.weight
			return v.wrapped(&e.weight)
		}
		return false
	})
}

func (e *plainEndpoint) inEndpoint(n protowire.Number, v value) bool {
	switch n {
	case 1:
		if e.endpoint.Address != nil {
			return false
		}
		e.endpoint.Address = &e.address
		return v.message(e.inAddress)
	case 3:
		return v.text(&e.endpoint.Hostname)
	}
	return false
}

func (e *plainEndpoint) inAddress(n protowire.Number, v value) bool {
	if n != 1 || e.address.Address != nil {
		return false
	}
	e.kind.SocketAddress = &e.socket
	e.address.Address = &e.kind
	return v.message(e.inSocket)
}

func (e *plainEndpoint) inSocket(n protowire.Number, v value) bool {
	switch n {
	case 1:
		e.socket.Protocol = corev3.SocketAddress_Protocol(int32(v.varint)) //nolint:gosec // as protobuf does
		return v.kind == protowire.VarintType
	case 2:
		return v.text(&e.socket.Address)
	case 3:
		e.socket.PortSpecifier = &e.port
		return v.number(&e.port.PortValue)
	}
	return false
}

// value is what a field has.
type value struct {
	kind   protowire.Type
	varint uint64
	bytes  []byte
}

// eachField calls f with each field of a message until that returns false. It reports
// whether f had all, and there were only numbers and what has a length.
func eachField(b []byte, f func(protowire.Number, value) bool) bool {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return false
		}
		b = b[size:]
		v := value{kind: kind}
		switch kind {
		case protowire.VarintType:
			v.varint, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.bytes, size = protowire.ConsumeBytes(b)
		default:
			return false
		}
		if size < 0 || !f(n, v) {
			return false
		}
		b = b[size:]
	}
	return true
}

func (v value) message(f func(protowire.Number, value) bool) bool {
	return v.kind == protowire.BytesType && eachField(v.bytes, f)
}

func (v value) text(to *string) bool {
	*to = string(v.bytes)
	return v.kind == protowire.BytesType && utf8.Valid(v.bytes)
}

func (v value) number(to *uint32) bool {
	*to = uint32(v.varint) //nolint:gosec // as protobuf does
	return v.kind == protowire.VarintType
}

func (v value) wrapped(to *wrapperspb.UInt32Value) bool {
	return v.message(func(n protowire.Number, v value) bool { return n == 1 && v.number(&to.Value) })
}

func (v value) locality(to *corev3.Locality) bool {
	return v.message(func(n protowire.Number, v value) bool {
		switch n {
		case 1:
			return v.text(&to.Region)
		case 2:
			return v.text(&to.Zone)
		case 3:
			return v.text(&to.SubZone)
		}
		return false
	})
}
