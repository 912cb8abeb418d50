package format

import (
	"strings"

	"github.com/xebec-proxy/xebec/filter"
)

// tlsOf finds the TLS of a connection; nil on plain text.
type tlsOf func(*Context) *filter.TLSInfo

func downstreamTLS(c *Context) *filter.TLSInfo {
	if cx := c.connection(); cx != nil {
		return cx.TLS
	}
	return nil
}

func upstreamTLS(c *Context) *filter.TLSInfo {
	if up := c.upstream(); up != nil {
		return up.TLS
	}
	return nil
}

// certOf finds a certificate; nil if there is none.
type certOf func(*Context) *filter.CertInfo

func (of tlsOf) peer(c *Context) *filter.CertInfo {
	if t := of(c); t != nil {
		return t.Peer
	}
	return nil
}

func (of tlsOf) local(c *Context) *filter.CertInfo {
	if t := of(c); t != nil {
		return t.Local
	}
	return nil
}

func (of tlsOf) str(get func(*filter.TLSInfo) string) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		t := of(c)
		if t == nil {
			return dst, false
		}
		s := get(t)
		return append(dst, s...), s != ""
	}}
}

func (of certOf) str(get func(*filter.CertInfo) string) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		x := of(c)
		if x == nil {
			return dst, false
		}
		s := get(x)
		return append(dst, s...), s != ""
	}}
}

// list joins values with commas.
func (of certOf) list(get func(*filter.CertInfo) []string) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		x := of(c)
		if x == nil {
			return dst, false
		}
		all := get(x)
		for i, s := range all {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, s...)
		}
		return dst, len(all) > 0
	}}
}

// downstreamTLSOp makes the operators of the client's TLS (AL-11).
func downstreamTLSOp(name string) *op {
	rest, ok := strings.CutPrefix(name, "DOWNSTREAM_")
	if !ok {
		return nil
	}
	if made := sessionOp(rest, downstreamTLS); made != nil {
		return made
	}
	of := tlsOf(downstreamTLS)
	if local, ok := strings.CutPrefix(rest, "LOCAL_"); ok {
		return sanOp(local, of.local, true)
	}
	peer, ok := strings.CutPrefix(rest, "PEER_")
	if !ok {
		return nil
	}
	if made := sanOp(peer, of.peer, true); made != nil {
		return made
	}
	if made := peerOp(peer, of.peer); made != nil {
		return made
	}
	return identityOp(peer, of.peer)
}

// upstreamTLSOp makes the operators of the upstream connection's TLS (AL-10).
func upstreamTLSOp(name string) *op {
	rest, ok := strings.CutPrefix(name, "UPSTREAM_")
	if !ok {
		return nil
	}
	if rest == "SERVER_NAME" {
		return tlsOf(upstreamTLS).str(func(t *filter.TLSInfo) string { return t.SNI })
	}
	if made := sessionOp(rest, upstreamTLS); made != nil {
		return made
	}
	of := tlsOf(upstreamTLS)
	if local, ok := strings.CutPrefix(rest, "LOCAL_"); ok {
		return sanOp(local, of.local, false)
	}
	peer, ok := strings.CutPrefix(rest, "PEER_")
	if !ok {
		return nil
	}
	if made := sanOp(peer, of.peer, false); made != nil {
		return made
	}
	return peerOp(peer, of.peer)
}

func sessionOp(name string, of tlsOf) *op {
	switch name {
	case "TLS_VERSION":
		return of.str(func(t *filter.TLSInfo) string { return t.Version })
	case "TLS_CIPHER":
		return of.str(func(t *filter.TLSInfo) string { return t.Cipher })
	case "TLS_GROUP":
		return of.str(func(t *filter.TLSInfo) string { return t.Group })
	case "TLS_SESSION_ID":
		return of.str(func(t *filter.TLSInfo) string { return t.SessionID })
	}
	return nil
}

// sanOp makes the operators of names in a certificate. Envoy has fewer of them
// upstream.
func sanOp(name string, of certOf, downstream bool) *op {
	switch name {
	case "URI_SAN":
		return of.list(func(x *filter.CertInfo) []string { return x.URISANs })
	case "DNS_SAN":
		return of.list(func(x *filter.CertInfo) []string { return x.DNSSANs })
	case "IP_SAN":
		return of.list(func(x *filter.CertInfo) []string { return x.IPSANs })
	}
	if !downstream {
		return nil
	}
	switch name {
	case "EMAIL_SAN":
		return of.list(func(x *filter.CertInfo) []string { return x.EmailSANs })
	case "OTHERNAME_SAN":
		return of.list(func(x *filter.CertInfo) []string { return x.OtherNameSANs })
	case "SUBJECT":
		return of.str(func(x *filter.CertInfo) string { return x.Subject })
	}
	return nil
}

// peerOp makes the operators that both sides have for the peer's certificate.
func peerOp(name string, of certOf) *op {
	switch name {
	case "SUBJECT":
		return of.str(func(x *filter.CertInfo) string { return x.Subject })
	case "ISSUER":
		return of.str(func(x *filter.CertInfo) string { return x.Issuer })
	case "CERT":
		return of.str(func(x *filter.CertInfo) string { return x.PEM })
	}
	return nil
}

func identityOp(name string, of certOf) *op {
	switch name {
	case "SERIAL":
		return of.str(func(x *filter.CertInfo) string { return x.Serial })
	case "FINGERPRINT_256":
		return of.str(func(x *filter.CertInfo) string { return x.Fingerprint256 })
	case "FINGERPRINT_1":
		return of.str(func(x *filter.CertInfo) string { return x.Fingerprint1 })
	case "CHAIN_FINGERPRINTS_256":
		return of.list(func(x *filter.CertInfo) []string { return x.ChainFingerprints256 })
	case "CHAIN_FINGERPRINTS_1":
		return of.list(func(x *filter.CertInfo) []string { return x.ChainFingerprints1 })
	case "CHAIN_SERIALS":
		return of.list(func(x *filter.CertInfo) []string { return x.ChainSerials })
	}
	return nil
}
