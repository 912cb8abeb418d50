package stats

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
)

// SinkDeps are what sinks need of the proxy.
type SinkDeps struct {
	// Cluster returns a line sink over a connection to the cluster, or an
	// error if there is no such cluster. It is called while sinks are made.
	Cluster func(name string) (LineSink, error)
}

// NewSink makes the sink of a bootstrap's stats_sinks entry
// (envoy.config.metrics.v3.StatsSink): StatsdSink by address or
// tcp_cluster_name, and DogStatsdSink. Others are refused by name. A UDP sink
// opens a socket, which Close gives up.
func NewSink(ctx context.Context, cfg *metricsv3.StatsSink, deps SinkDeps) (Sink, error) {
	if cfg.GetTypedConfig() == nil {
		return nil, fmt.Errorf("stats sink %q: typed_config: value is required", cfg.GetName())
	}
	msg, err := cfg.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("stats sink %q: typed_config: %w", cfg.GetName(), err)
	}
	var sink Sink
	switch m := msg.(type) {
	case *metricsv3.StatsdSink:
		sink, err = newStatsd(ctx, m, deps)
	case *metricsv3.DogStatsdSink:
		sink, err = newDogStatsd(ctx, m)
	default:
		err = fmt.Errorf("%s is not built: use envoy.config.metrics.v3.StatsdSink or DogStatsdSink", cfg.GetTypedConfig().GetTypeUrl())
	}
	if err != nil {
		return nil, fmt.Errorf("stats sink %q: %w", cfg.GetName(), err)
	}
	return sink, nil
}

func newStatsd(ctx context.Context, m *metricsv3.StatsdSink, deps SinkDeps) (Sink, error) {
	scale := m.GetScaleHistogramUnitsToMilliseconds()
	switch k := m.GetStatsdSpecifier().(type) {
	case *metricsv3.StatsdSink_Address:
		u, err := dialUDP(ctx, k.Address)
		if err != nil {
			return nil, err
		}
		return newStatsdUDP(u, m.GetPrefix(), scale), nil
	case *metricsv3.StatsdSink_TcpClusterName:
		out, err := deps.Cluster(k.TcpClusterName)
		if err != nil {
			return nil, fmt.Errorf("tcp_cluster_name: %w", err)
		}
		return NewStatsdTCP(m.GetPrefix(), scale, out), nil
	default:
		return nil, errors.New("statsd_specifier: address or tcp_cluster_name is required")
	}
}

func newDogStatsd(ctx context.Context, m *metricsv3.DogStatsdSink) (Sink, error) {
	if m.GetAddress() == nil {
		return nil, errors.New("dog_statsd_specifier: address is required")
	}
	if m.GetMaxBytesPerDatagram() != nil && m.GetMaxBytesPerDatagram().GetValue() == 0 {
		return nil, errors.New("max_bytes_per_datagram: value must be greater than 0")
	}
	u, err := dialUDP(ctx, m.GetAddress())
	if err != nil {
		return nil, err
	}
	s := newStatsdUDP(u, m.GetPrefix(), m.GetScaleHistogramUnitsToMilliseconds())
	s.tags = true
	s.max = int(min(m.GetMaxBytesPerDatagram().GetValue(), 65507)) // the most UDP carries
	return s, nil
}

// NewStatsdUDP makes a sink that sends each line as a datagram to address
// (host:port). The prefix is "envoy" if empty. ctx bounds the look-up of host.
func NewStatsdUDP(ctx context.Context, address, prefix string) (*Statsd, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", address)
	if err != nil {
		return nil, fmt.Errorf("statsd address: %w", err)
	}
	return newStatsdUDP(conn, prefix, false), nil
}

func newStatsdUDP(conn net.Conn, prefix string, scale bool) *Statsd {
	return &Statsd{
		prefix: orEnvoy(prefix), scale: scale, close: conn.Close,
		send: func(b []byte) error {
			// The socket's buffer may be full for a moment, not for long.
			if err := conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
				return fmt.Errorf("statsd socket: %w", err)
			}
			_, err := conn.Write(b)
			if err != nil && !errors.Is(err, syscall.ECONNREFUSED) { // nobody listens: as good as sent
				return fmt.Errorf("statsd socket: %w", err)
			}
			return nil
		},
	}
}

func dialUDP(ctx context.Context, a *corev3.Address) (net.Conn, error) {
	sa := a.GetSocketAddress()
	if sa == nil {
		return nil, errors.New("address: only socket_address is built for statsd")
	}
	if _, ok := sa.GetPortSpecifier().(*corev3.SocketAddress_PortValue); !ok {
		return nil, errors.New("address.socket_address: port_value is required")
	}
	if net.ParseIP(sa.GetAddress()) == nil {
		return nil, fmt.Errorf("address.socket_address.address: malformed IP address: %s", sa.GetAddress())
	}
	addr := net.JoinHostPort(sa.GetAddress(), strconv.FormatUint(uint64(sa.GetPortValue()), 10))
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", addr)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	return conn, nil
}
