package edge

import (
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// clientCerts is what is said of client certificates (HC-36).
type clientCerts struct {
	mode                           hcmv3.HttpConnectionManager_ForwardClientCertDetails
	subject, cert, chain, dns, uri bool
}

func (c *clientCerts) read(m *hcmv3.HttpConnectionManager) {
	c.mode = m.GetForwardClientCertDetails()
	d := m.GetSetCurrentClientCertDetails()
	c.subject, c.cert, c.chain, c.dns, c.uri = d.GetSubject().GetValue(), d.GetCert(), d.GetChain(), d.GetDns(), d.GetUri()
}

// apply sets, extends or removes x-forwarded-client-cert.
func (c *clientCerts) apply(h *header.Map, q *Request) {
	t := q.Info.Connection.TLS
	if c.mode == hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY {
		return
	}
	if c.mode == hcmv3.HttpConnectionManager_SANITIZE || t == nil || !t.PeerPresented || t.Peer == nil {
		h.DelID(header.XForwardedClientCert)
		return
	}
	if c.mode == hcmv3.HttpConnectionManager_FORWARD_ONLY {
		return
	}
	var room [512]byte
	element := h.Keep(c.element(room[:0], t))
	if c.mode == hcmv3.HttpConnectionManager_SANITIZE_SET {
		h.SetID(header.XForwardedClientCert, element)
		return
	}
	h.AppendValue("x-forwarded-client-cert", ",", element)
}

// element appends what is said of one certificate. Nothing but the subject is
// quoted, and the subject is escaped as it is printed (RFC 2253).
func (c *clientCerts) element(dst []byte, t *filter.TLSInfo) []byte {
	if t.Local != nil {
		for _, u := range t.Local.URISANs {
			dst = pair(dst, "By=", u, "")
		}
	}
	p := t.Peer
	dst = pair(dst, "Hash=", p.Fingerprint256, "")
	if c.cert && p.PEM != "" {
		dst = pair(dst, `Cert="`, p.PEM, `"`)
	}
	if c.chain && p.Chain != "" {
		dst = pair(dst, `Chain="`, p.Chain, `"`)
	}
	if c.subject {
		dst = pair(dst, `Subject="`, p.Subject, `"`)
	}
	if c.uri {
		if len(p.URISANs) == 0 {
			dst = pair(dst, "URI=", "", "")
		}
		for _, u := range p.URISANs {
			dst = pair(dst, "URI=", u, "")
		}
	}
	if c.dns {
		for _, d := range p.DNSSANs {
			dst = pair(dst, "DNS=", d, "")
		}
	}
	return dst
}

func pair(dst []byte, key, value, end string) []byte {
	if len(dst) > 0 {
		dst = append(dst, ';')
	}
	return append(append(append(dst, key...), value...), end...)
}
