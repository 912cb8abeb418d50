// Package hpack is the header compression of HTTP/2 (RFC 7541) over the header
// lists of the data plane: a Decoder fills a header.Map in its own memory, an
// Encoder appends a block to an output buffer. Neither allocates in the steady
// state, and what a hostile block can make them store or do is bounded by its
// own length and the limits given.
//
// An Encoder and a Decoder each belong to one direction of one connection and
// are confined to its worker.
package hpack

//go:generate go run ./gen

import "errors"

// DefaultTableSize is the size in bytes of a dynamic table before a setting
// changes it (RFC 9113 section 6.5.2).
const DefaultTableSize = 4096

// Flags is what a decoder noticed about names and values.
type Flags uint8

// What a decoder notices. Known names, which are valid, have none of them.
const (
	BadName    Flags = 1 << iota // a name that is empty, has upper case or what is no token
	BadValue                     // a value with a control character other than tab, or DEL
	Underscore                   // a name with an underscore
	TooLarge                     // more bytes than allowed: the list is not complete
	TooMany                      // more fields than allowed: the list is not complete
)

// Errors of a decoder. Each ends the connection: the tables of the two sides
// no longer agree.
var (
	ErrIndex      = errors.New("hpack: index beyond the tables")
	ErrTruncated  = errors.New("hpack: header block ends within a field")
	ErrInteger    = errors.New("hpack: integer too large")
	ErrHuffman    = errors.New("hpack: invalid Huffman code")
	ErrTableSize  = errors.New("hpack: table size update beyond the setting")
	ErrSizeUpdate = errors.New("hpack: table size update missing or not at the start of a block")
)
