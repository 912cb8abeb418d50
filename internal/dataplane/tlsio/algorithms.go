package tlsio

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// A cipher suite of TLS 1.2 and older as BoringSSL calls it; id 0 if
// crypto/tls lacks it.
type suite struct {
	name, standard string
	id             uint16
}

func suites() []suite {
	return []suite{
		{"ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
		{"ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256},
		{"ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256},
		{"ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256},
		{"ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384},
		{"ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384},
		{"ECDHE-ECDSA-AES128-SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA},
		{"ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA},
		{"ECDHE-ECDSA-AES256-SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA},
		{"ECDHE-RSA-AES256-SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA},
		{"ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256},
		{"ECDHE-ECDSA-AES128-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256},
		{"AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256", tls.TLS_RSA_WITH_AES_128_GCM_SHA256},
		{"AES256-GCM-SHA384", "TLS_RSA_WITH_AES_256_GCM_SHA384", tls.TLS_RSA_WITH_AES_256_GCM_SHA384},
		{"AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA", tls.TLS_RSA_WITH_AES_128_CBC_SHA},
		{"AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA", tls.TLS_RSA_WITH_AES_256_CBC_SHA},
		{"DES-CBC3-SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA", tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA},
		{"ECDHE-RSA-AES256-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", 0},
		{"ECDHE-ECDSA-AES256-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", 0},
		{"AES128-SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256", tls.TLS_RSA_WITH_AES_128_CBC_SHA256},
		{"AES256-SHA256", "TLS_RSA_WITH_AES_256_CBC_SHA256", 0},
		{"ECDHE-PSK-AES128-CBC-SHA", "TLS_ECDHE_PSK_WITH_AES_128_CBC_SHA", 0},
		{"ECDHE-PSK-AES256-CBC-SHA", "TLS_ECDHE_PSK_WITH_AES_256_CBC_SHA", 0},
		{"ECDHE-PSK-CHACHA20-POLY1305", "TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256", 0},
		{"PSK-AES128-CBC-SHA", "TLS_PSK_WITH_AES_128_CBC_SHA", 0},
		{"PSK-AES256-CBC-SHA", "TLS_PSK_WITH_AES_256_CBC_SHA", 0},
	}
}

// defaultSuites are those of Envoy (TS-04): the first six.
func defaultSuites() []uint16 {
	ids := make([]uint16, 0, 6)
	for _, s := range suites()[:6] {
		ids = append(ids, s.id)
	}
	return ids
}

// cipherName is what BoringSSL calls a suite.
func cipherName(id uint16) string {
	switch id {
	case tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384, tls.TLS_CHACHA20_POLY1305_SHA256:
		return tls.CipherSuiteName(id) // those of TLS 1.3, as most are, have one name
	}
	for _, s := range suites() {
		if s.id == id && id != 0 {
			return s.name
		}
	}
	return tls.CipherSuiteName(id)
}

// parseSuites reads cipher_suites. crypto/tls prefers by its own rules, so
// groups of equal preference and the order of the list make no difference.
func parseSuites(path string, names []string) ([]uint16, error) {
	if len(names) == 0 {
		return defaultSuites(), nil
	}
	var ids []uint16
	for i, entry := range names {
		for _, name := range splitSuites(entry) {
			id, err := parseSuite(name)
			if err != nil {
				return nil, fmt.Errorf("%s[%d]: Failed to initialize cipher suites %s. The following ciphers were rejected when tried individually: %s: %w",
					path, i, strings.Join(names, ":"), name, err)
			}
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// splitSuites cuts an entry such as "[A|B]:C" into names. What is left of
// brackets that do not pair up makes a name unknown.
func splitSuites(entry string) []string {
	var names []string
	for part := range strings.SplitSeq(entry, ":") {
		inner, open := strings.CutPrefix(part, "[")
		group, closed := strings.CutSuffix(inner, "]")
		if open && closed {
			names = append(names, strings.Split(group, "|")...)
		} else {
			names = append(names, part)
		}
	}
	return names
}

func parseSuite(name string) (uint16, error) {
	for _, s := range suites() {
		if name != s.name && name != s.standard {
			continue
		}
		if s.id == 0 {
			return 0, fmt.Errorf("%s is not available: Go's crypto/tls does not implement it", name)
		}
		return s.id, nil
	}
	switch {
	case strings.HasPrefix(name, "TLS_AES_") || strings.HasPrefix(name, "TLS_CHACHA20_"):
		return 0, fmt.Errorf("the suites of TLS 1.3 are always on and cannot be listed")
	case name != "" && strings.ContainsAny(name[:1], "!+-@"), slices.Contains([]string{"ALL", "HIGH", "DEFAULT", "ECDHE", "AES128", "AES256"}, name):
		return 0, fmt.Errorf("cipher rules and aliases are not built: list the suites by name")
	default:
		return 0, fmt.Errorf("unknown cipher suite %q", name)
	}
}

// curves are the names BoringSSL has for groups; id 0 if crypto/tls lacks it.
func curves() []suite {
	return []suite{
		{"X25519", "x25519", uint16(tls.X25519)},
		{"P-256", "prime256v1", uint16(tls.CurveP256)},
		{"P-384", "secp384r1", uint16(tls.CurveP384)},
		{"P-521", "secp521r1", uint16(tls.CurveP521)},
		{"X25519MLKEM768", "", uint16(tls.X25519MLKEM768)},
		{"SecP256r1MLKEM768", "", uint16(tls.SecP256r1MLKEM768)},
		{"SecP384r1MLKEM1024", "", uint16(tls.SecP384r1MLKEM1024)},
		{"P-224", "secp224r1", 0},
		{"X25519Kyber768Draft00", "", 0},
		{"MLKEM1024", "", 0},
	}
}

func curveName(id tls.CurveID) string {
	for _, c := range curves() {
		if c.id == uint16(id) && id != 0 {
			return c.name
		}
	}
	return ""
}

// parseCurves reads ecdh_curves; the default is Envoy's (TS-04).
func parseCurves(path string, names []string) ([]tls.CurveID, error) {
	if len(names) == 0 {
		return []tls.CurveID{tls.X25519, tls.CurveP256}, nil
	}
	var ids []tls.CurveID
	for i, entry := range names {
		for name := range strings.SplitSeq(entry, ":") {
			known := slices.IndexFunc(curves(), func(c suite) bool { return name != "" && (c.name == name || c.standard == name) })
			why := "unknown curve"
			if known >= 0 {
				if id := curves()[known].id; id != 0 {
					ids = append(ids, tls.CurveID(id))
					continue
				}
				why = "Go's crypto/tls does not implement it"
			}
			return nil, fmt.Errorf("%s[%d]: Failed to initialize ECDH curves %s: %q: %s", path, i, strings.Join(names, ":"), name, why)
		}
	}
	return ids, nil
}

// signatures are the names of RFC 8446; id 0 if crypto/tls lacks it.
func signatures() []suite {
	return []suite{
		{"ecdsa_secp256r1_sha256", "", uint16(tls.ECDSAWithP256AndSHA256)},
		{"ecdsa_secp384r1_sha384", "", uint16(tls.ECDSAWithP384AndSHA384)},
		{"ecdsa_secp521r1_sha512", "", uint16(tls.ECDSAWithP521AndSHA512)},
		{"rsa_pss_rsae_sha256", "", uint16(tls.PSSWithSHA256)},
		{"rsa_pss_rsae_sha384", "", uint16(tls.PSSWithSHA384)},
		{"rsa_pss_rsae_sha512", "", uint16(tls.PSSWithSHA512)},
		{"rsa_pkcs1_sha256", "", uint16(tls.PKCS1WithSHA256)},
		{"rsa_pkcs1_sha384", "", uint16(tls.PKCS1WithSHA384)},
		{"rsa_pkcs1_sha512", "", uint16(tls.PKCS1WithSHA512)},
		{"ed25519", "", uint16(tls.Ed25519)},
		{"rsa_pkcs1_sha1", "", uint16(tls.PKCS1WithSHA1)},
		{"ecdsa_sha1", "", uint16(tls.ECDSAWithSHA1)},
		{"rsa_pkcs1_md5_sha1", "", 0},
	}
}

func sigAlgName(id tls.SignatureScheme) string {
	if id == 0 { // a peer without a certificate, in most handshakes
		return ""
	}
	for _, s := range signatures() {
		if s.id == uint16(id) {
			return s.name
		}
	}
	return ""
}

func parseSigAlgs(path string, names []string) ([]tls.SignatureScheme, error) {
	var ids []tls.SignatureScheme
	for i, entry := range names {
		for name := range strings.SplitSeq(entry, ":") {
			known := slices.IndexFunc(signatures(), func(s suite) bool { return s.name == name })
			why := "unknown signature algorithm"
			if known >= 0 {
				if id := signatures()[known].id; id != 0 {
					ids = append(ids, tls.SignatureScheme(id))
					continue
				}
				why = "Go's crypto/tls does not implement it"
			}
			return nil, fmt.Errorf("%s[%d]: Failed to initialize TLS signature algorithms %s: %q: %s", path, i, strings.Join(names, ":"), name, why)
		}
	}
	return ids, nil
}
