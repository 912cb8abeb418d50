// Package message turns requests into the bytes of the discovery protocol and
// bytes into responses. Resources are not decoded: their bytes are slices of
// the message they came in.
package message
