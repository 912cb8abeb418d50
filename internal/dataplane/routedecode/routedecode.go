// Package routedecode decodes route configurations that come again and again with
// few changes.
package routedecode

import (
	"errors"
	"fmt"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/listdiff"
)

// Decoder decodes the versions of one route configuration. A virtual host that is
// encoded as one of the version before is the same message again, so that others see
// without a comparison that it has stayed. The zero value is ready to use. It is not
// safe for concurrent use.
type Decoder struct {
	// Decoded is called for each message that was decoded anew, a virtual host or the
	// rest, with its encoding, before anybody else has it; its error is Decode's. nil
	// is not called.
	Decoded func(m proto.Message, body []byte) error

	hosts []host
}

// host is a virtual host of the last version.
type host struct {
	body string
	vh   *routev3.VirtualHost
}

// span is a part of a body.
type span struct{ from, to uint32 }

const hostsField protowire.Number = 2 // RouteConfiguration.virtual_hosts

var errMalformed = errors.New("the fields cannot be told apart")

// Decode reads a version. The message must not be changed; the body is not kept. An
// error says less than that of proto.Unmarshal.
func (d *Decoder) Decode(body []byte) (*routev3.RouteConfiguration, error) {
	rest, hosts, err := split(body)
	if err != nil {
		return nil, err
	}
	rc := &routev3.RouteConfiguration{}
	if err := d.decode(rest, rc); err != nil {
		return nil, err
	}
	from := listdiff.Kept(d.hosts, hosts,
		func(h host, s span) bool { return h.body == string(body[s.from:s.to]) },
		func(h host) string { return h.body }, func(s span) string { return string(body[s.from:s.to]) })
	next := d.hosts
	if !inPlace(from, len(next)) {
		next = make([]host, len(from))
	}
	if len(from) > 0 {
		rc.VirtualHosts = make([]*routev3.VirtualHost, len(from))
	}
	for i, was := range from {
		if was >= 0 {
			next[i] = d.hosts[was]
		} else {
			h, err := d.host(body[hosts[i].from:hosts[i].to])
			if err != nil {
				return nil, err
			}
			next[i] = h
		}
		rc.VirtualHosts[i] = next[i].vh
	}
	d.hosts = next
	return rc, nil
}

func (d *Decoder) host(body []byte) (host, error) {
	vh := &routev3.VirtualHost{}
	if err := d.decode(body, vh); err != nil {
		return host{}, err
	}
	return host{string(body), vh}, nil
}

func (d *Decoder) decode(body []byte, m proto.Message) error {
	if err := proto.Unmarshal(body, m); err != nil {
		return fmt.Errorf("%w", err)
	}
	if d.Decoded == nil {
		return nil
	}
	return d.Decoded(m, body)
}

// inPlace reports whether all that has stayed is where it was, in a list of the same
// length.
func inPlace(from []int32, before int) bool {
	for i, was := range from {
		if was >= 0 && int(was) != i {
			return false
		}
	}
	return len(from) == before
}

// split gives what is not a virtual host, and where those are.
func split(body []byte) (rest []byte, hosts []span, err error) {
	for at := 0; at < len(body); {
		num, typ, n := protowire.ConsumeTag(body[at:])
		if n < 0 {
			return nil, nil, errMalformed
		}
		m := protowire.ConsumeFieldValue(num, typ, body[at+n:])
		if m < 0 {
			return nil, nil, errMalformed
		}
		if num == hostsField && typ == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(body[at+n:])
			hosts = append(hosts, span{uint32(at + n + m - len(value)), uint32(at + n + m)})
		} else {
			rest = append(rest, body[at:at+n+m]...)
		}
		at += n + m
	}
	return rest, hosts, nil
}
