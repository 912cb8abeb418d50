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
func Sotw(data []byte) (*client.Response, error) {
	return read(data, "DiscoveryResponse", sotwResource, func(r *client.Response, n protowire.Number, v []byte) error {
		if n == sotwErrors {
			return appendResourceError(r, v)
		}
		return head(r, n, v)
	})
}

// Delta reads a DeltaDiscoveryResponse. Bodies share data.
func Delta(data []byte) (*client.Response, error) {
	return read(data, "DeltaDiscoveryResponse", deltaResource, func(r *client.Response, n protowire.Number, v []byte) error {
		switch n {
		case deltaRemoved:
			return appendName(&r.Removed, v)
		case deltaRemovedNames:
			name, err := resourceName(v)
			r.Removed = append(r.Removed, name)
			return err
		case deltaErrors:
			return appendResourceError(r, v)
		}
		return head(r, n, v)
	})
}

func deltaResource(v []byte) (client.Raw, error) {
	var raw client.Raw
	err := wrapped(&raw, v)
	return raw, err
}

// read reads a response: its resources each with resource, the rest with field.
func read(data []byte, what string, resource func([]byte) (client.Raw, error), field func(*client.Response, protowire.Number, []byte) error) (*client.Response, error) {
	room := count(data, respResources)
	if room > MaxResources {
		return nil, errTooMany
	}
	r := &client.Response{Resources: make([]client.Raw, 0, room)}
	err := eachField(data, func(n protowire.Number, v []byte) error {
		if n != respResources {
			return field(r, n, v)
		}
		raw, err := resource(v)
		if err != nil {
			return fmt.Errorf("resources[%d]: %w", len(r.Resources), err)
		}
		r.Resources = append(r.Resources, raw)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading a %s: %w", what, err)
	}
	return r, nil
}

func head(r *client.Response, n protowire.Number, v []byte) error {
	switch n {
	case respVersion:
		return setString(&r.Version, v)
	case respType:
		return setString(&r.TypeURL, v)
	case respNonce:
		return setString(&r.Nonce, v)
	}
	return nil
}

func sotwResource(v []byte) (client.Raw, error) {
	var raw client.Raw
	if err := packed(&raw, v); err != nil {
		return raw, err
	}
	if raw.TypeURL != wrapperType {
		return raw, nil
	}
	inner := raw.Body
	raw = client.Raw{}
	return raw, wrapped(&raw, inner)
}

// packed reads a google.protobuf.Any.
func packed(raw *client.Raw, v []byte) error {
	const typeURL, value = 1, 2
	raw.HasBody = true
	return eachField(v, func(n protowire.Number, v []byte) error {
		switch n {
		case typeURL:
			return setString(&raw.TypeURL, v)
		case value:
			raw.Body = v
		}
		return nil
	})
}

// wrapped reads an envoy.service.discovery.v3.Resource.
func wrapped(raw *client.Raw, v []byte) error {
	const version, resource, name, aliases, ttl, named = 1, 2, 3, 4, 6, 8
	return eachField(v, func(n protowire.Number, v []byte) (err error) {
		switch n {
		case version:
			return setString(&raw.Version, v)
		case resource:
			return packed(raw, v)
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
