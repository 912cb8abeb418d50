// Package configsource finds the xdsclient source that an Envoy ConfigSource
// means: which server, which of the protocol's variants, and who else uses it
// already.
package configsource
