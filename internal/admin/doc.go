// Package admin is the server's pages for operators: health, metrics, and a
// read-only JSON view of clients, resources, sources and events. It has
// neither TLS nor authentication, and belongs on a loopback address.
package admin
