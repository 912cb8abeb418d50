// Package client is an xDS client whose only purpose is to cost little while
// there are thousands of it: one epoll loop serves every connection, nothing
// of a response is kept beyond the resource that is being read, and requests
// are encoded once and shared.
//
// From the outside in: a frameReader cuts what a connection receives into
// HTTP/2 frames, a messageReader cuts the DATA of the one stream into gRPC
// messages and these into top-level protobuf fields, and a session makes xDS
// of them: it checks every response against what the server should hold,
// acknowledges it, and notes when a change arrived. Loop moves the bytes.
package client
