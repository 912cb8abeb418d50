package message

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xebec-proxy/xebec/internal/wire/client"
)

// Field numbers of DiscoveryResponse and DeltaDiscoveryResponse. Version,
// resources, type and nonce have the same in both.
const (
	respVersion, respResources, respType, respNonce = 1, 2, 4, 5

	sotwErrors                                   = 7
	deltaRemoved, deltaRemovedNames, deltaErrors = 6, 8, 9
)

// wrapperType is the type URL of envoy.service.discovery.v3.Resource.
const wrapperType = "type.googleapis.com/envoy.service.discovery.v3.Resource"

var errNotUTF8 = errors.New("a string is not UTF-8")

// MaxResources bounds how many resources one response may have, because an
// empty one takes two bytes to send and a hundred to hold.
const MaxResources = 1 << 20

var errTooMany = fmt.Errorf("more than %d resources in one response", MaxResources)

// Sotw reads a DiscoveryResponse. A resource wrapped in a Resource message is
// unwrapped (GC-59). Bodies share data.
func Sotw(data []byte) (*client.Response, error) { return new(Reader).Sotw(data) }

// Delta reads a DeltaDiscoveryResponse. Bodies share data.
func Delta(data []byte) (*client.Response, error) { return new(Reader).Delta(data) }

// Reader reads one response after the other into the same memory: what it
// returns lasts until the next. The zero value is ready for use. It is for one
// goroutine at a time.
type Reader struct {
	r client.Response
	// typeURL is the last one read, which most resources have in common.
	typeURL string
}

// Sotw is as the function of the package.
func (rd *Reader) Sotw(data []byte) (*client.Response, error) {
	return rd.read(data, "DiscoveryResponse", rd.sotwResource, func(n protowire.Number, v []byte) error {
		if n == sotwErrors {
			return appendResourceError(&rd.r, v)
		}
		return rd.head(n, v)
	})
}

// Delta is as the function of the package.
func (rd *Reader) Delta(data []byte) (*client.Response, error) {
	return rd.read(data, "DeltaDiscoveryResponse", rd.wrapped, func(n protowire.Number, v []byte) error {
		switch n {
		case deltaRemoved:
			return appendName(&rd.r.Removed, v)
		case deltaRemovedNames:
			name, err := resourceName(v)
			rd.r.Removed = append(rd.r.Removed, name)
			return err
		case deltaErrors:
			return appendResourceError(&rd.r, v)
		}
		return rd.head(n, v)
	})
}

// read reads a response: its resources each with resource, the rest with field.
func (rd *Reader) read(data []byte, what string, resource func(*client.Raw, []byte) error, field func(protowire.Number, []byte) error) (*client.Response, error) {
	r := &rd.r
	*r = client.Response{Resources: r.Resources[:0], Removed: r.Removed[:0]}
	err := eachField(data, func(n protowire.Number, v []byte) error {
		if n != respResources {
			return field(n, v)
		}
		if len(r.Resources) == MaxResources {
			return errTooMany
		}
		r.Resources = append(r.Resources, client.Raw{})
		last := len(r.Resources) - 1
		if err := resource(&r.Resources[last], v); err != nil {
			return fmt.Errorf("resources[%d]: %w", last, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading a %s: %w", what, err)
	}
	return r, nil
}

func (rd *Reader) head(n protowire.Number, v []byte) error {
	switch n {
	case respVersion:
		return setString(&rd.r.Version, v)
	case respType:
		return rd.setType(&rd.r.TypeURL, v)
	case respNonce:
		return setString(&rd.r.Nonce, v)
	}
	return nil
}

func (rd *Reader) sotwResource(raw *client.Raw, v []byte) error {
	if err := rd.packed(raw, v); err != nil || raw.TypeURL != wrapperType {
		return err
	}
	inner := raw.Body
	*raw = client.Raw{}
	return rd.wrapped(raw, inner)
}

// packed reads a google.protobuf.Any.
func (rd *Reader) packed(raw *client.Raw, v []byte) error {
	const typeURL, value = 1, 2
	raw.HasBody = true
	return eachField(v, func(n protowire.Number, v []byte) error {
		switch n {
		case typeURL:
			return rd.setType(&raw.TypeURL, v)
		case value:
			raw.Body = v
		}
		return nil
	})
}

// wrapped reads an envoy.service.discovery.v3.Resource.
func (rd *Reader) wrapped(raw *client.Raw, v []byte) error {
	const version, resource, name, aliases, ttl, named = 1, 2, 3, 4, 6, 8
	return eachField(v, func(n protowire.Number, v []byte) (err error) {
		switch n {
		case version:
			return setString(&raw.Version, v)
		case resource:
			return rd.packed(raw, v)
		case name:
			return setString(&raw.Name, v)
		case aliases:
			return appendName(&raw.Aliases, v)
		case ttl:
			raw.TTL, err = duration(v)
		case named:
			raw.Name, err = resourceName(v)
		}
		return err
	})
}

// setType sets a type URL, without a copy if it is the last one again.
func (rd *Reader) setType(to *string, v []byte) error {
	if string(v) != rd.typeURL {
		if err := setString(&rd.typeURL, v); err != nil {
			return err
		}
	}
	*to = rd.typeURL
	return nil
}

// duration reads a google.protobuf.Duration; negative and too long ones are
// cut to what a timer can be set to.
func duration(v []byte) (time.Duration, error) {
	const seconds, nanos = 1, 2
	var s, ns int64
	err := eachVarint(v, func(n protowire.Number, v uint64) {
		switch n {
		case seconds:
			s = int64(v)
		case nanos:
			ns = int64(int32(v)) //nolint:gosec // the field is an int32
		}
	})
	const limit = int64(100 * 365 * 24 * time.Hour / time.Second)
	s = min(max(s, 0), limit)
	return time.Duration(s)*time.Second + time.Duration(min(max(ns, 0), int64(time.Second)-1)), err
}

// resourceName reads a ResourceName; dynamic parameters are not asked for, so
// that constraints in an answer say nothing new.
func resourceName(v []byte) (name string, err error) {
	err = eachField(v, func(n protowire.Number, v []byte) error {
		if n == 1 {
			return setString(&name, v)
		}
		return nil
	})
	return name, err
}

func appendResourceError(r *client.Response, v []byte) error {
	const name, detail = 1, 2
	const statusCode, statusMessage = 1, 2
	var e client.ResourceError
	err := eachField(v, func(n protowire.Number, v []byte) (err error) {
		switch n {
		case name:
			e.Name, err = resourceName(v)
		case detail:
			err = eachField(v, func(n protowire.Number, v []byte) error {
				if n == statusMessage {
					return setString(&e.Message, v)
				}
				return nil
			})
			if err == nil {
				err = eachVarint(v, func(n protowire.Number, v uint64) {
					if n == statusCode {
						e.Code = int32(v) //nolint:gosec // the field is an int32
					}
				})
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("resource_errors[%d]: %w", len(r.Errors), err)
	}
	r.Errors = append(r.Errors, e)
	return nil
}

func appendName(to *[]string, v []byte) error {
	if !utf8.Valid(v) {
		return errNotUTF8
	}
	*to = append(*to, string(v))
	return nil
}

func setString(to *string, v []byte) error {
	if !utf8.Valid(v) {
		return errNotUTF8
	}
	*to = string(v)
	return nil
}
