package xdsserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/clip"
	"github.com/xebec-proxy/xebec/internal/wire"
)

// request is a decoded request. Names of SotW stay encoded until they are
// known to differ from those before.
type request struct {
	wire.Request
	node  *corev3.Node // nil if the message has none
	names []string
	data  string // the message
	v2    bool   // it is one of v2, which knows no locators (XV-06)
}

var (
	errNotUTF8  = errors.New("a string is not UTF-8")
	errLocators = errors.New("resource locators with dynamic parameters are not supported by this server; subscribe by resource_names")
)

// maxNackMessage is how much of a client's message is kept (section 12).
const maxNackMessage = 4 << 10

// Field numbers of DiscoveryRequest, and of DeltaDiscoveryRequest.
const (
	sotwVersion, sotwNode, sotwNames, sotwType, sotwNonce, sotwError, sotwLocators = 1, 2, 3, 4, 5, 6, 7

	deltaNode, deltaType, deltaSub, deltaUnsub, deltaInitial, deltaNonce, deltaError = 1, 2, 3, 4, 5, 6, 7
	deltaSubLocators, deltaUnsubLocators                                             = 8, 9
)

// decode reads a request of either variant, of a method of v2 if v2 is set. Strings
// share the message's bytes.
func decode(variant wire.Variant, v2 bool, data string) (*request, error) {
	r := &request{data: data, v2: v2}
	if variant == wire.Delta {
		return r, eachField(data, func(n protowire.Number, v string, _ int) error { return r.deltaField(n, v) })
	}
	names := newNameDigest(data)
	err := eachField(data, func(n protowire.Number, v string, end int) error { return r.sotwField(n, v, end, names) })
	r.Digest = names.sum()
	return r, err
}

func (r *request) sotwField(n protowire.Number, v string, end int, names *nameDigest) error {
	switch n {
	case sotwVersion:
		return setString(&r.Version, v)
	case sotwNode:
		return r.setNode(v)
	case sotwNames:
		names.field(v, end)
		r.appendName(&r.names, v)
	case sotwType:
		return setString(&r.TypeURL, v)
	case sotwNonce:
		return setString(&r.Nonce, v)
	case sotwError:
		return r.setError(v)
	case sotwLocators:
		if r.v2 {
			return nil
		}
		var name []string
		if err := r.locator(v, &name); err != nil {
			return err
		}
		names.locator(name[0])
		r.appendName(&r.names, name[0])
	}
	return nil
}

// expectedNames bounds the room made for names before they are seen.
const expectedNames = 4096

// nameDigest hashes the list of names of a SotW request as it is encoded. Runs
// of names are hashed at once: clients repeat long lists with every ACK.
type nameDigest struct {
	data     string
	from, to int // the run that has not been hashed yet
	hash     xxhash.Digest
}

func newNameDigest(data string) *nameDigest {
	d := &nameDigest{data: data}
	d.hash.Reset()
	return d
}

// field takes a name whose field ends at an offset of the message.
func (d *nameDigest) field(name string, end int) {
	const tag = 1
	from := end - tag - protowire.SizeBytes(len(name))
	if from != d.to {
		d.flush()
		d.from = from
	}
	d.to = end
}

// locator takes a name that stands in a locator, and hashes it as the name
// field it equals.
func (d *nameDigest) locator(name string) {
	d.flush()
	var head [1 + binary.MaxVarintLen64]byte
	_, _ = d.hash.Write(protowire.AppendVarint(protowire.AppendTag(head[:0], sotwNames, protowire.BytesType), uint64(len(name))))
	_, _ = d.hash.WriteString(name)
}

func (d *nameDigest) flush() {
	_, _ = d.hash.WriteString(d.data[max(d.from, 0):d.to])
	d.from = d.to
}

// sum is never 0, which would mean that nothing is known.
func (d *nameDigest) sum() uint64 {
	d.flush()
	return d.hash.Sum64() | 1
}

func (r *request) deltaField(n protowire.Number, v string) error {
	switch n {
	case deltaNode:
		return r.setNode(v)
	case deltaType:
		return setString(&r.TypeURL, v)
	case deltaSub:
		return r.appendValid(&r.Subscribe, v)
	case deltaUnsub:
		return r.appendValid(&r.Unsubscribe, v)
	case deltaInitial:
		return r.initial(v)
	case deltaNonce:
		return setString(&r.Nonce, v)
	case deltaError:
		return r.setError(v)
	case deltaSubLocators:
		return r.locator(v, &r.Subscribe)
	case deltaUnsubLocators:
		return r.locator(v, &r.Unsubscribe)
	}
	return nil
}

// takeNames makes the SotW names part of the request.
func (r *request) takeNames() error {
	for _, n := range r.names {
		if !utf8.ValidString(n) {
			return errNotUTF8
		}
	}
	r.Names = r.names
	return nil
}

func (r *request) initial(entry string) error {
	var k, v string
	err := eachField(entry, func(n protowire.Number, s string, _ int) error {
		switch n {
		case 1:
			return setString(&k, s)
		case 2:
			return setString(&v, s)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.Initial == nil {
		r.Initial = map[string]string{}
	}
	r.Initial[k] = v
	return nil
}

// locator takes a resource locator without parameters as a plain name.
func (r *request) locator(v string, names *[]string) error {
	if r.v2 {
		return nil
	}
	var l discoveryv3.ResourceLocator
	if err := proto.Unmarshal(bytesOf(v), &l); err != nil {
		return fmt.Errorf("resource_locators: %w", err)
	}
	if len(l.GetDynamicParameters()) > 0 {
		return errLocators
	}
	*names = append(*names, l.GetName())
	return nil
}

func (r *request) setNode(v string) error {
	if r.node == nil {
		r.node = &corev3.Node{}
	}
	if err := merge(v, r.node); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

func (r *request) setError(v string) error {
	st := &statuspb.Status{}
	if r.Error != nil {
		st.Code, st.Message = int32(r.Error.Code), r.Error.Message
	}
	if err := merge(v, st); err != nil {
		return fmt.Errorf("error_detail: %w", err)
	}
	r.Error = &wire.Status{Code: wire.Code(st.GetCode()), Message: clip.Text(st.GetMessage(), maxNackMessage)}
	return nil
}

// merge decodes into a message: a field that comes twice counts as one.
func merge(v string, m proto.Message) error {
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(bytesOf(v), m) //nolint:wrapcheck // its callers do
}

func setString(to *string, v string) error {
	if !utf8.ValidString(v) {
		return errNotUTF8
	}
	*to = v
	return nil
}

func (r *request) appendValid(to *[]string, v string) error {
	if !utf8.ValidString(v) {
		return errNotUTF8
	}
	r.appendName(to, v)
	return nil
}

// appendName makes room for as many names as the message can hold of this
// length, so that a long list is not copied as it grows.
func (r *request) appendName(to *[]string, name string) {
	if *to == nil {
		*to = make([]string, 0, min(len(r.data)/(len(name)+1)+1, expectedNames))
	}
	*to = append(*to, name)
}

// eachField visits the length-delimited fields of a message, each with the
// offset at which it ends, and skips others.
func eachField(data string, visit func(n protowire.Number, v string, end int) error) error {
	total := len(data)
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(bytesOf(data))
		if n < 0 {
			return protowire.ParseError(n) //nolint:wrapcheck // says it all
		}
		if num > protowire.MaxValidNumber {
			return errors.New("a field number is too large")
		}
		data = data[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, bytesOf(data)); n < 0 {
				return protowire.ParseError(n) //nolint:wrapcheck // says it all
			}
			data = data[n:]
			continue
		}
		size, n := protowire.ConsumeVarint(bytesOf(data))
		if n < 0 {
			return protowire.ParseError(n) //nolint:wrapcheck // says it all
		}
		if size > uint64(len(data)-n) {
			return errors.New("a field is longer than the message")
		}
		v := data[n : n+int(size)]
		data = data[n+int(size):]
		if err := visit(num, v, total-len(data)); err != nil {
			return err
		}
	}
	return nil
}

// bytesOf views a string as bytes that are only read.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
