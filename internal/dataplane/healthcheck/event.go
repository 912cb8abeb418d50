package healthcheck

import (
	"bytes"
	"encoding/json"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
)

// failureType is a verdict in an event.
func failureType(v Verdict) datav3.HealthCheckFailureType {
	switch v {
	case NetworkFailed:
		return datav3.HealthCheckFailureType_NETWORK
	case TimedOut:
		return datav3.HealthCheckFailureType_NETWORK_TIMEOUT
	case Passive:
		return datav3.HealthCheckFailureType_PASSIVE
	default:
		return datav3.HealthCheckFailureType_ACTIVE
	}
}

// events are what a step is worth telling, in Envoy's order (HK-08).
func (c *Config) events(r Result, s Step) []*datav3.HealthCheckEvent {
	var out []*datav3.HealthCheckEvent
	code := uint32(max(r.Status, 0)) //nolint:gosec // three digits
	if s.Added {
		out = append(out, &datav3.HealthCheckEvent{Event: &datav3.HealthCheckEvent_AddHealthyEvent{
			AddHealthyEvent: &datav3.HealthCheckAddHealthy{FirstCheck: s.First},
		}})
	} else if r.Verdict.Passes() && c.everySuccess {
		out = append(out, &datav3.HealthCheckEvent{Event: &datav3.HealthCheckEvent_SuccessfulHealthCheckEvent{
			SuccessfulHealthCheckEvent: &datav3.HealthCheckSuccessful{},
		}})
	}
	if s.Ejected {
		out = append(out, &datav3.HealthCheckEvent{Event: &datav3.HealthCheckEvent_EjectUnhealthyEvent{
			EjectUnhealthyEvent: &datav3.HealthCheckEjectUnhealthy{FailureType: failureType(r.Verdict), HttpStatusCode: code},
		}})
	}
	if s.Demoted {
		out = append(out, &datav3.HealthCheckEvent{Event: &datav3.HealthCheckEvent_DegradedHealthyHost{DegradedHealthyHost: &datav3.DegradedHealthyHost{}}})
	}
	if s.Promoted {
		out = append(out, &datav3.HealthCheckEvent{Event: &datav3.HealthCheckEvent_NoLongerDegradedHost{NoLongerDegradedHost: &datav3.NoLongerDegradedHost{}}})
	}
	if !r.Verdict.Passes() && (s.First || c.everyFailure) {
		out = append(out, &datav3.HealthCheckEvent{Event: &datav3.HealthCheckEvent_HealthCheckFailureEvent{
			HealthCheckFailureEvent: &datav3.HealthCheckFailure{FailureType: failureType(r.Verdict), FirstCheck: s.First, HttpStatusCode: code},
		}})
	}
	return out
}

// line completes an event and writes it as a line of JSON, as Envoy does.
func line(e *datav3.HealthCheckEvent, kind datav3.HealthCheckerType, h *cluster.Host, name string, now time.Time) ([]byte, error) {
	a := h.Attributes()
	e.HealthCheckerType, e.Host, e.ClusterName = kind, address(h.Address()), name
	e.Timestamp = timestamppb.New(now.Truncate(time.Millisecond))
	e.Locality = &corev3.Locality{Region: a.Locality.Region, Zone: a.Locality.Zone, SubZone: a.Locality.SubZone}
	e.Metadata = a.Metadata
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(e)
	if err != nil {
		return nil, err //nolint:wrapcheck // its caller says what it was
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil { // protojson's spaces vary
		return nil, err //nolint:wrapcheck // its caller says what it was
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func address(a filter.Address) *corev3.Address {
	if a.Pipe != "" {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: a.Pipe}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       a.IP.Addr().String(),
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.IP.Port())},
	}}}
}
