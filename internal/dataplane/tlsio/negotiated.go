package tlsio

import (
	"crypto/tls"
	"reflect"
)

// Negotiated is what a handshake agreed on, in the names that Envoy's
// statistics and access logs use (TS-20). All strings are shared constants
// except SNI.
type Negotiated struct {
	Version string // TLSv1.3
	Cipher  string // TLS_AES_128_GCM_SHA256, ECDHE-ECDSA-AES128-GCM-SHA256
	Curve   string // X25519, P-256; empty without an (EC)DHE exchange
	SigAlg  string // of the peer's signature; empty if the peer did not sign
	ALPN    string // empty if none was negotiated
	SNI     string // what the client asked for, as sent
	// Resumed: the handshake continued an earlier session.
	Resumed bool
	// PeerCertificate: the peer presented a certificate, now or in the
	// session that was resumed. Without one, count no_certificate.
	PeerCertificate bool
}

func negotiated(cs *tls.ConnectionState) Negotiated {
	return Negotiated{
		Version:         versionName(cs.Version),
		Cipher:          cipherName(cs.CipherSuite),
		Curve:           curveName(cs.CurveID),
		SigAlg:          sigAlgName(peerSignature(cs)),
		ALPN:            cs.NegotiatedProtocol,
		SNI:             cs.ServerName,
		Resumed:         cs.DidResume,
		PeerCertificate: len(cs.PeerCertificates) > 0,
	}
}

// peerSignature is the algorithm of the peer's signature in the handshake.
// crypto/tls keeps it in an unexported field only; TestPeerSignature fails if
// a Go release moves it. Then the statistic is lost, and NewClient and
// NewServer refuse signature_algorithms where peers sign.
func peerSignature(cs *tls.ConnectionState) tls.SignatureScheme {
	if len(cs.PeerCertificates) == 0 {
		return 0 // a server of TLS 1.2 finds its own there
	}
	f := reflect.ValueOf(cs).Elem().FieldByName("testingOnlyPeerSignatureAlgorithm")
	if !f.IsValid() || !f.CanUint() {
		return 0
	}
	return tls.SignatureScheme(f.Uint()) //nolint:gosec // the field's own type, 16 bits
}

func knowsPeerSignature() bool {
	f, ok := reflect.TypeFor[tls.ConnectionState]().FieldByName("testingOnlyPeerSignatureAlgorithm")
	return ok && f.Type == reflect.TypeFor[tls.SignatureScheme]()
}

func versionName(v uint16) string {
	switch v {
	case tls.VersionTLS10:
		return "TLSv1"
	case tls.VersionTLS11:
		return "TLSv1.1"
	case tls.VersionTLS12:
		return "TLSv1.2"
	case tls.VersionTLS13:
		return "TLSv1.3"
	}
	return ""
}
