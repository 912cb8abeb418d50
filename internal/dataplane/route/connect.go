package route

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// Connect says that a tunnel ends here: what goes through it is sent to the host
// as it is (RouteAction.UpgradeConfig.connect_config; HC-45). Immutable.
type Connect struct {
	// ProxyHeader is the version of the PROXY header that the host gets first, 1
	// or 2; 0 is none.
	ProxyHeader int
	// AllowPost does the same with the bodies of POST and of its response.
	AllowPost bool
}

func (b *builder) connect(path string, u *routev3.RouteAction_UpgradeConfig, kind string, e *Entry) {
	c := u.GetConnectConfig()
	if c == nil {
		return
	}
	if kind != "connect" {
		b.fail(path+".connect_config", fmt.Errorf("Non-CONNECT upgrade type %s has ConnectConfig", u.GetUpgradeType()))
		return
	}
	b.only(path+".connect_config", c, "proxy_protocol_config", "allow_post")
	e.connect = &Connect{AllowPost: c.GetAllowPost()}
	if p := c.GetProxyProtocolConfig(); p != nil {
		b.only(path+".connect_config.proxy_protocol_config", p, "version")
		e.connect.ProxyHeader = 1
		if p.GetVersion() == corev3.ProxyProtocolConfig_V2 {
			e.connect.ProxyHeader = 2
		}
	}
}

// Connect says whether tunnels end here; nil if not.
func (e *Entry) Connect() *Connect { return e.connect }
