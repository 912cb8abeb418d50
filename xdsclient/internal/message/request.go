package message

import (
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xebec-proxy/xebec/internal/wire/client"
)

// Field numbers of DiscoveryRequest and of DeltaDiscoveryRequest.
const (
	sotwVersion, sotwNode, sotwNames, sotwType, sotwNonce, sotwError = 1, 2, 3, 4, 5, 6

	deltaNode, deltaType, deltaSubscribe, deltaUnsubscribe, deltaInitial, deltaNonce, deltaError = 1, 2, 3, 4, 5, 6, 7
)

// AppendSotw appends a DiscoveryRequest without its names, which most requests
// have in common with the one before: AppendNames appends these, anywhere in the
// message. The node is given encoded, and used if the request wants one.
func AppendSotw(b []byte, r *client.Request, node []byte) []byte {
	b = slices.Grow(b, roomFor(r, node))
	b = appendString(b, sotwVersion, r.Version)
	if r.WithNode {
		b = appendBytes(b, sotwNode, node)
	}
	b = appendString(b, sotwType, r.TypeURL)
	b = appendString(b, sotwNonce, r.Nonce)
	return appendError(b, sotwError, r.Error)
}

// AppendNames appends the names of a DiscoveryRequest.
func AppendNames(b []byte, names []string) []byte {
	b = slices.Grow(b, roomForNames(names))
	for _, n := range names {
		b = appendListed(b, sotwNames, n)
	}
	return b
}

// AppendDelta appends a DeltaDiscoveryRequest.
func AppendDelta(b []byte, r *client.Request, node []byte) []byte {
	size := roomFor(r, node) + roomForNames(r.Subscribe) + roomForNames(r.Unsubscribe)
	for name, version := range r.Held {
		size += len(name) + len(version) + 4*fieldHead
	}
	b = slices.Grow(b, size)
	if r.WithNode {
		b = appendBytes(b, deltaNode, node)
	}
	b = appendString(b, deltaType, r.TypeURL)
	for _, n := range r.Subscribe {
		b = appendListed(b, deltaSubscribe, n)
	}
	for _, n := range r.Unsubscribe {
		b = appendListed(b, deltaUnsubscribe, n)
	}
	if len(r.Held) > 0 { // in the first request of a stream only
		for _, name := range slices.Sorted(maps.Keys(r.Held)) {
			b = appendEntry(b, name, r.Held[name])
		}
	}
	b = appendString(b, deltaNonce, r.Nonce)
	return appendError(b, deltaError, r.Error)
}

// fieldHead is how much the tag and the length of a field take at most, for
// texts of some size.
const fieldHead = 6

// roomFor is enough for a request without its names and versions, so that it is
// written without growing.
func roomFor(r *client.Request, node []byte) int {
	n := len(r.TypeURL) + len(r.Version) + len(r.Nonce) + len(r.Error) + 8*fieldHead
	if r.WithNode {
		n += len(node)
	}
	return n
}

func roomForNames(names []string) (n int) {
	for _, name := range names {
		n += len(name) + fieldHead
	}
	return n
}

// appendEntry appends an entry of initial_resource_versions.
func appendEntry(b []byte, name, version string) []byte {
	const key, value = 1, 2
	size := fieldSize(key, len(name)) + fieldSize(value, len(version))
	b = protowire.AppendTag(b, deltaInitial, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = appendListed(b, key, name)
	return appendListed(b, value, version)
}

// appendError appends a google.rpc.Status with the code INVALID_ARGUMENT
// (XC-09); none for an empty text.
func appendError(b []byte, n protowire.Number, text string) []byte {
	const statusCode, statusMessage = 1, 2
	if text == "" {
		return b
	}
	var st []byte
	st = protowire.AppendVarint(protowire.AppendTag(st, statusCode, protowire.VarintType), uint64(codes.InvalidArgument))
	st = appendString(st, statusMessage, text)
	return appendBytes(b, n, st)
}

// appendString leaves out what is empty, as proto3 does.
func appendString(b []byte, n protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return appendListed(b, n, s)
}

// appendListed is for items of a list, which are there even if empty.
func appendListed(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func fieldSize(n protowire.Number, size int) int {
	return protowire.SizeTag(n) + protowire.SizeBytes(size)
}
