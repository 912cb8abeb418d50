//go:build !linux

package listener

import (
	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// originalDestination has no answer where nothing says how to ask.
func originalDestination(*loop.Conn, *filter.Address) (filter.Address, bool) {
	return filter.Address{}, false
}
