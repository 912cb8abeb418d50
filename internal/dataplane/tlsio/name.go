package tlsio

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// rfc2253 writes a distinguished name as OpenSSL and Envoy do: last part
// first, OpenSSL's short names, bytes above ASCII escaped.
func rfc2253(raw []byte) string {
	var seq pkix.RDNSequence
	if rest, err := asn1.Unmarshal(raw, &seq); err != nil || len(rest) > 0 {
		return ""
	}
	var b strings.Builder
	for i, set := range slices.Backward(seq) {
		if i < len(seq)-1 {
			b.WriteByte(',')
		}
		for j, attribute := range slices.Backward(set) {
			if j < len(set)-1 {
				b.WriteByte('+')
			}
			writeAttribute(&b, attribute)
		}
	}
	return b.String()
}

func writeAttribute(b *strings.Builder, a pkix.AttributeTypeAndValue) {
	oid := a.Type.String()
	text, isText := a.Value.(string)
	name := shortName(oid)
	if name != "" && isText {
		b.WriteString(name)
		b.WriteByte('=')
		escapeValue(b, text)
		return
	}
	if name == "" {
		name = oid
	}
	b.WriteString(name)
	b.WriteString("=#")
	if der, err := asn1.Marshal(a.Value); err == nil {
		b.WriteString(strings.ToUpper(hex.EncodeToString(der)))
	}
}

func shortName(oid string) string {
	switch oid {
	case "2.5.4.3":
		return "CN"
	case "2.5.4.4":
		return "SN"
	case "2.5.4.5":
		return "serialNumber"
	case "2.5.4.6":
		return "C"
	case "2.5.4.7":
		return "L"
	case "2.5.4.8":
		return "ST"
	case "2.5.4.9":
		return "street"
	case "2.5.4.10":
		return "O"
	case "2.5.4.11":
		return "OU"
	case "2.5.4.12":
		return "title"
	case "2.5.4.17":
		return "postalCode"
	case "2.5.4.42":
		return "GN"
	case "0.9.2342.19200300.100.1.1":
		return "UID"
	case "0.9.2342.19200300.100.1.25":
		return "DC"
	case "1.2.840.113549.1.9.1":
		return "emailAddress"
	}
	return ""
}

func escapeValue(b *strings.Builder, s string) {
	for i := range len(s) {
		c := s[i]
		switch {
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(b, "\\%02X", c)
		case strings.IndexByte(`,+"\<>;`, c) >= 0, i == 0 && (c == ' ' || c == '#'), i == len(s)-1 && c == ' ':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
}
