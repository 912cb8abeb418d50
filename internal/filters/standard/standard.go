// Package standard lists the filters that are built in.
package standard

import (
	"fmt"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/filters/buffer"
	"github.com/xebec-proxy/xebec/internal/filters/directresponse"
	"github.com/xebec-proxy/xebec/internal/filters/echo"
	"github.com/xebec-proxy/xebec/internal/filters/fault"
	"github.com/xebec-proxy/xebec/internal/filters/headermutation"
	"github.com/xebec-proxy/xebec/internal/filters/httpinspector"
	"github.com/xebec-proxy/xebec/internal/filters/ondemand"
	"github.com/xebec-proxy/xebec/internal/filters/originaldst"
	"github.com/xebec-proxy/xebec/internal/filters/proxyprotocol"
	"github.com/xebec-proxy/xebec/internal/filters/tlsinspector"
)

// Register adds every built-in filter to a registry.
func Register(r *filter.Registry) error {
	for _, t := range []filter.ListenerType{tlsinspector.Type(), httpinspector.Type(), proxyprotocol.Type(), originaldst.Type()} {
		if err := r.AddListener(t); err != nil {
			return fmt.Errorf("listener filters: %w", err)
		}
	}
	for _, t := range []filter.NetworkType{echo.Type(), directresponse.Type()} {
		if err := r.AddNetwork(t); err != nil {
			return fmt.Errorf("network filters: %w", err)
		}
	}
	for _, t := range []filter.HTTPType{headermutation.Type(), buffer.Type(), fault.Type(), ondemand.Type()} {
		if err := r.AddHTTP(t); err != nil {
			return fmt.Errorf("HTTP filters: %w", err)
		}
	}
	return nil
}
