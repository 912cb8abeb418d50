// Package directresponse is the network filter
// envoy.filters.network.direct_response: it sends a fixed response and closes.
package directresponse

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	directresponsev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/direct_response/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
)

// Type is the kind of filter
// (envoy/extensions/filters/network/direct_response/v3/config.proto; spec
// NF-11). It is terminal. Without a response it only closes.
func Type() filter.NetworkType {
	return filter.NetworkType{Config: (*directresponsev3.Config)(nil), New: build, Terminal: true}
}

func build(cfg proto.Message, env *filter.Env) (filter.NetworkFactory, error) {
	c, ok := cfg.(*directresponsev3.Config)
	if !ok {
		return nil, fmt.Errorf("a configuration of type %T is not a direct_response Config", cfg)
	}
	response, err := load(c.GetResponse(), env)
	if err != nil {
		return nil, fmt.Errorf("response.%w", err)
	}
	return func(c filter.Connection) filter.NetworkFilter {
		return filter.NetworkFilter{Read: &answer{conn: c, response: response}}
	}, nil
}

// load reads a DataSource (spec BS-33).
func load(src *corev3.DataSource, env *filter.Env) ([]byte, error) {
	if src == nil {
		return nil, nil
	}
	if src.GetWatchedDirectory() != nil {
		return nil, errors.New("watched_directory: a response is read once: remove it")
	}
	switch s := src.GetSpecifier().(type) {
	case *corev3.DataSource_Filename:
		data, err := env.ReadFile(s.Filename)
		if err != nil {
			return nil, fmt.Errorf("filename: unable to read %q: %w", s.Filename, err)
		}
		return data, nil
	case *corev3.DataSource_InlineBytes:
		return s.InlineBytes, nil
	case *corev3.DataSource_InlineString:
		return []byte(s.InlineString), nil
	case *corev3.DataSource_EnvironmentVariable:
		v, ok := env.Getenv(s.EnvironmentVariable)
		if !ok {
			return nil, fmt.Errorf("environment_variable: Environment variable doesn't exist: %s", s.EnvironmentVariable)
		}
		return []byte(v), nil
	}
	return nil, errors.New("specifier: set filename, inline_bytes, inline_string or environment_variable")
}

// answer is the filter of one connection.
type answer struct {
	conn     filter.Connection
	response []byte
}

// OnNewConnection implements filter.ReadFilter.
func (a *answer) OnNewConnection() filter.NetworkStatus {
	if len(a.response) > 0 {
		a.conn.Write(a.response, true)
	}
	a.conn.Info().Details = "direct_response"
	a.conn.Close(filter.FlushWrite, "")
	return filter.NetworkStop
}

// OnData implements filter.ReadFilter. What the client sends is ignored.
func (*answer) OnData(data *filter.Buffer, _ bool) filter.NetworkStatus {
	data.Drain(data.Len())
	return filter.NetworkStop
}
