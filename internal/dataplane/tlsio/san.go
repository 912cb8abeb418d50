package tlsio

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"unicode/utf16"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// san is one subject alternative name as text.
type san struct {
	kind tlsv3.SubjectAltNameMatcher_SanType
	oid  string // of an OTHER_NAME
	text string
}

// Tags of GeneralName, RFC 5280 section 4.2.1.6.
const (
	tagOtherName = 0
	tagEmail     = 1
	tagDNS       = 2
	tagURI       = 6
	tagIP        = 7
)

// sansOf lists the subject alternative names of a certificate in its order.
// Kinds without a text form are left out, and so is what does not parse.
func sansOf(cert *x509.Certificate) []san {
	var out []san
	for _, ext := range cert.Extensions {
		if !ext.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		var seq asn1.RawValue
		if rest, err := asn1.Unmarshal(ext.Value, &seq); err != nil || len(rest) > 0 || !seq.IsCompound {
			return out
		}
		for rest := seq.Bytes; len(rest) > 0; {
			var v asn1.RawValue
			var err error
			if rest, err = asn1.Unmarshal(rest, &v); err != nil {
				return out
			}
			if s, ok := parseSAN(v); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

func parseSAN(v asn1.RawValue) (san, bool) {
	if v.Class != asn1.ClassContextSpecific {
		return san{}, false
	}
	switch v.Tag {
	case tagEmail:
		return san{kind: tlsv3.SubjectAltNameMatcher_EMAIL, text: string(v.Bytes)}, true
	case tagDNS:
		return san{kind: tlsv3.SubjectAltNameMatcher_DNS, text: string(v.Bytes)}, true
	case tagURI:
		return san{kind: tlsv3.SubjectAltNameMatcher_URI, text: string(v.Bytes)}, true
	case tagIP:
		ip, ok := netip.AddrFromSlice(v.Bytes)
		return san{kind: tlsv3.SubjectAltNameMatcher_IP_ADDRESS, text: ip.String()}, ok
	case tagOtherName:
		return parseOtherName(v.Bytes)
	}
	return san{}, false
}

// parseOtherName reads the inside of an OtherName: an OID and an explicitly
// tagged value.
func parseOtherName(b []byte) (san, bool) {
	var oid asn1.ObjectIdentifier
	rest, err := asn1.Unmarshal(b, &oid)
	if err != nil {
		return san{}, false
	}
	var outer, value asn1.RawValue
	if _, err := asn1.Unmarshal(rest, &outer); err != nil || outer.Class != asn1.ClassContextSpecific || outer.Tag != 0 {
		return san{}, false
	}
	if _, err := asn1.Unmarshal(outer.Bytes, &value); err != nil {
		return san{}, false
	}
	text, ok := otherNameText(value)
	return san{kind: tlsv3.SubjectAltNameMatcher_OTHER_NAME, oid: oid.String(), text: text}, ok
}

// otherNameText follows the list in SubjectAltNameMatcher.matcher.
func otherNameText(v asn1.RawValue) (string, bool) {
	if v.Class != asn1.ClassUniversal {
		return "", false
	}
	switch v.Tag {
	case asn1.TagOID:
		var oid asn1.ObjectIdentifier
		_, err := asn1.Unmarshal(v.FullBytes, &oid)
		return oid.String(), err == nil
	case asn1.TagBoolean:
		if len(v.Bytes) != 1 {
			return "", false
		}
		return fmt.Sprint(v.Bytes[0] != 0), true
	case asn1.TagInteger:
		n := new(big.Int)
		_, err := asn1.Unmarshal(v.FullBytes, &n)
		return n.String(), err == nil
	case asn1.TagEnum:
		var n asn1.Enumerated
		_, err := asn1.Unmarshal(v.FullBytes, &n)
		return fmt.Sprint(int(n)), err == nil
	case asn1.TagNull:
		return "", true
	case asn1.TagBMPString:
		return bmpText(v.Bytes)
	default:
		return string(v.Bytes), !v.IsCompound
	}
}

func bmpText(b []byte) (string, bool) {
	if len(b)%2 != 0 {
		return "", false
	}
	units := make([]uint16, 0, len(b)/2)
	for ; len(b) > 0; b = b[2:] {
		units = append(units, uint16(b[0])<<8|uint16(b[1]))
	}
	return string(utf16.Decode(units)), true
}

// sanMatcher is one entry of match_typed_subject_alt_names.
type sanMatcher struct {
	kind  tlsv3.SubjectAltNameMatcher_SanType
	oid   string
	match func(string) bool
}

func (m sanMatcher) matches(s san) bool {
	return s.kind == m.kind && (m.kind != tlsv3.SubjectAltNameMatcher_OTHER_NAME || s.oid == m.oid) && m.match(s.text)
}

// parseSANMatchers reads match_typed_subject_alt_names or, without any, the
// deprecated match_subject_alt_names, which look at every kind but OTHER_NAME
// (TS-09).
func parseSANMatchers(path string, v *tlsv3.CertificateValidationContext) ([]sanMatcher, error) {
	var out []sanMatcher
	for i, m := range v.GetMatchTypedSubjectAltNames() {
		p := fmt.Sprintf("%s.match_typed_subject_alt_names[%d]", path, i)
		parsed, err := parseTypedSAN(p, m.GetSanType(), m.GetOid(), m.GetMatcher())
		if err != nil {
			return nil, err
		}
		out = append(out, parsed)
	}
	if len(out) > 0 {
		return out, nil
	}
	for i, m := range v.GetMatchSubjectAltNames() { //nolint:staticcheck // deprecated fields still work (BS-20)
		p := fmt.Sprintf("%s.match_subject_alt_names[%d]", path, i)
		for _, kind := range []tlsv3.SubjectAltNameMatcher_SanType{
			tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_URI,
			tlsv3.SubjectAltNameMatcher_EMAIL, tlsv3.SubjectAltNameMatcher_IP_ADDRESS,
		} {
			parsed, err := parseTypedSAN(p, kind, "", m)
			if err != nil {
				return nil, err
			}
			out = append(out, parsed)
		}
	}
	return out, nil
}

func parseTypedSAN(path string, kind tlsv3.SubjectAltNameMatcher_SanType, oid string, m *matcherv3.StringMatcher) (sanMatcher, error) {
	out := sanMatcher{kind: kind, oid: oid}
	switch kind {
	case tlsv3.SubjectAltNameMatcher_EMAIL, tlsv3.SubjectAltNameMatcher_DNS,
		tlsv3.SubjectAltNameMatcher_URI, tlsv3.SubjectAltNameMatcher_IP_ADDRESS:
	case tlsv3.SubjectAltNameMatcher_OTHER_NAME:
		if oid == "" {
			return out, fmt.Errorf("%s.oid: required for OTHER_NAME", path)
		}
	default:
		return out, fmt.Errorf("%s.san_type: must be EMAIL, DNS, URI, IP_ADDRESS or OTHER_NAME, not %s", path, kind)
	}
	if exact, ok := m.GetMatchPattern().(*matcherv3.StringMatcher_Exact); ok && kind == tlsv3.SubjectAltNameMatcher_DNS {
		want := exact.Exact
		out.match = func(got string) bool { return dnsMatches(want, got) }
		return out, nil
	}
	text, err := stringmatch.Compile(path+".matcher", m)
	out.match = text.Match
	return out, err //nolint:wrapcheck // it names the field
}

// dnsMatches compares a host name with a name in a certificate, which may have
// a wildcard within its first label (RFC 6125 section 6.4.3); without regard
// to case.
func dnsMatches(host, pattern string) bool {
	host, pattern = strings.ToLower(host), strings.ToLower(pattern)
	if host == pattern {
		return host != ""
	}
	hostLabel, hostRest, ok1 := strings.Cut(host, ".")
	label, rest, ok2 := strings.Cut(pattern, ".")
	if !ok1 || !ok2 || hostRest != rest || hostLabel == "" || strings.Contains(rest, "*") {
		return false
	}
	before, after, ok := strings.Cut(label, "*")
	if !ok || strings.Contains(after, "*") {
		return false
	}
	// Part of an internationalised label means nothing.
	if label != "*" && (strings.HasPrefix(label, "xn--") || strings.HasPrefix(hostLabel, "xn--")) {
		return false
	}
	return len(hostLabel) >= len(before)+len(after) && strings.HasPrefix(hostLabel, before) && strings.HasSuffix(hostLabel, after)
}
