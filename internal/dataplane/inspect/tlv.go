package inspect

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	proxy_protocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
)

const headerTLV = 3

// readTLVs keeps b.
func (p *ProxyProtocol) readTLVs(h *ProxyHeader, b []byte) error {
	for len(b) > 0 {
		if len(b) < headerTLV {
			return errors.New("an extension is cut off before its length")
		}
		end := headerTLV + int(binary.BigEndian.Uint16(b[1:]))
		if len(b) < end {
			return errors.New("an extension is cut off within its value")
		}
		t := TLV{Type: b[0], Value: b[headerTLV:end:end]}
		b = b[end:]
		h.TLVs = append(h.TLVs, t)
		if p.passAll || p.pass[t.Type] {
			h.PassThrough = append(h.PassThrough, t)
		}
		if pair, ok := p.rules[t.Type]; ok {
			p.store(h, pair, t.Value)
		}
	}
	return nil
}

func (p *ProxyProtocol) store(h *ProxyHeader, pair *proxy_protocolv3.ProxyProtocol_KeyValuePair, raw []byte) {
	f := TLVField{Namespace: pair.GetMetadataNamespace(), Key: pair.GetKey(), Value: encode(pair, raw), Raw: raw}
	if p.inFilterState {
		f.Namespace = ""
		if at := indexField(h.FilterState, f); at >= 0 {
			h.FilterState[at] = f
			return
		}
		h.FilterState = append(h.FilterState, f)
		return
	}
	if f.Namespace == "" {
		f.Namespace = ProxyProtocolNamespace
	}
	if indexField(h.Metadata, f) < 0 {
		h.Metadata = append(h.Metadata, f)
	}
}

func indexField(list []TLVField, f TLVField) int {
	for i := range list {
		if list[i].Namespace == f.Namespace && list[i].Key == f.Key {
			return i
		}
	}
	return -1
}

func encode(pair *proxy_protocolv3.ProxyProtocol_KeyValuePair, raw []byte) string {
	if pair.GetValueStringEncoding() == proxy_protocolv3.ProxyProtocol_KeyValuePair_BASE64 {
		return base64.StdEncoding.EncodeToString(raw)
	}
	if utf8.Valid(raw) {
		return string(raw)
	}
	var out strings.Builder
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		if r == utf8.RuneError && n == 1 {
			out.WriteByte('!')
		} else {
			out.Write(raw[:n])
		}
		raw = raw[n:]
	}
	return out.String()
}
