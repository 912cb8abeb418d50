package tlsio

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type (
	down   = tlsv3.DownstreamTlsContext
	rules  = tlsv3.CertificateValidationContext
	params = tlsv3.TlsParameters
)

func inlineString(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

func file(name string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: name}}
}

func env(name string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_EnvironmentVariable{EnvironmentVariable: name}}
}

// Proves TS-02, BS-33: a certificate by each form of DataSource, and what is
// said when it is not there.
func TestDataSources(t *testing.T) {
	leaf := newCA(t, "ca", nil).leaf(t, "ecdsa", "x")
	chain, key := string(certPEM(leaf.cert)), string(leaf.keyPEM(t))
	o := Options{
		ReadFile: func(name string) ([]byte, error) {
			switch name {
			case "/c.pem":
				return []byte(chain), nil
			case "/k.pem":
				return []byte(key), nil
			case "/empty":
				return nil, nil
			}
			return nil, fs.ErrNotExist
		},
		Getenv: func(name string) (string, bool) {
			v, ok := map[string]string{"CHAIN": chain, "KEY": key, "EMPTY": ""}[name]
			return v, ok
		},
	}
	for _, tc := range []struct {
		chain, key *corev3.DataSource
		want, from string
	}{
		{file("/c.pem"), file("/k.pem"), "", "/c.pem"},
		{inlineString(chain), inlineBytes([]byte(key)), "", "<inline>"},
		{env("CHAIN"), env("KEY"), "", "<inline>"},
		{file("/gone"), file("/k.pem"), `common_tls_context.tls_certificates[0].certificate_chain.filename: unable to read "/gone": file does not exist`, ""},
		{file("/c.pem"), env("NONE"), `common_tls_context.tls_certificates[0].private_key.environment_variable: Environment variable doesn't exist: NONE`, ""},
		{file("/empty"), file("/k.pem"), `certificate_chain: DataSource cannot be empty (/empty)`, ""},
		{env("EMPTY"), file("/k.pem"), `certificate_chain: DataSource cannot be empty (<inline>)`, ""},
		{&corev3.DataSource{}, file("/k.pem"), `certificate_chain: Unexpected DataSource::specifier_case()`, ""},
		{&corev3.DataSource{Specifier: file("/c.pem").Specifier, WatchedDirectory: &corev3.WatchedDirectory{Path: "/"}}, file("/k.pem"), `certificate_chain.watched_directory: `, ""},
		{file("/k.pem"), file("/k.pem"), `certificate_chain: Failed to load certificate chain from /k.pem: it holds no PEM block of type CERTIFICATE`, ""},
		{file("/c.pem"), file("/c.pem"), `private_key: Failed to load private key from /c.pem, Cause: `, ""},
		{nil, file("/k.pem"), `certificate_chain: Failed to load incomplete certificate: certificate chain not set`, ""},
		{file("/c.pem"), nil, `private_key: Failed to load incomplete private key`, ""},
	} {
		m := &down{CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{{CertificateChain: tc.chain, PrivateKey: tc.key}}}}
		c, err := NewServer(m, o)
		checkError(t, err, tc.want)
		if tc.want == "" && c.Certificates(time.Now()).Chain[0].Path != tc.from {
			t.Errorf("from %q", c.Certificates(time.Now()).Chain[0].Path)
		}
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// Proves TS-02, TS-03, TS-04, TS-09, TS-10, TS-16 and TS-18: what a server's message may not say.
func TestServerErrors(t *testing.T) {
	ca := newCA(t, "ca", nil)
	leaf, other := ca.leaf(t, "ecdsa", "x"), ca.leaf(t, "ecdsa", "y")
	weakKey, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skipf("this Go makes no weak keys: %v", err)
	}
	weak := pair{cert: sign(t, template("weak"), ca, weakKey), key: weakKey}
	ext := &corev3.TypedExtensionConfig{Name: "x"}
	src := inlineString("x")
	rule := func(change func(v *rules)) func(*down) {
		return func(m *down) {
			v := trusting(ca)
			change(v)
			validate(m.CommonTlsContext, v)
		}
	}
	param := func(p *params) func(*down) { return func(m *down) { m.CommonTlsContext.TlsParams = p } }
	cert := func(change func(c *tlsv3.TlsCertificate)) func(*down) {
		return func(m *down) { change(m.CommonTlsContext.TlsCertificates[0]) }
	}
	for want, change := range map[string]func(m *down){
		"common_tls_context: No TLS certificates found for server context":                                                                                       func(m *down) { m.CommonTlsContext = nil },
		"private_key: Failed to load private key from <inline>, Cause: tls: private key does not match public key":                                               cert(func(c *tlsv3.TlsCertificate) { c.PrivateKey = inlineBytes(other.keyPEM(t)) }),
		"only RSA certificates with 2048-bit or larger keys are supported":                                                                                       func(m *down) { m.CommonTlsContext.TlsCertificates[0] = weak.proto(t) },
		"tls_certificates[0].ocsp_staple: OCSP stapling is not built":                                                                                            cert(func(c *tlsv3.TlsCertificate) { c.OcspStaple = src }),
		"tls_certificates[0].pkcs12: PKCS#12 is not built":                                                                                                       cert(func(c *tlsv3.TlsCertificate) { c.Pkcs12 = src }),
		"tls_certificates[0].password: encrypted private keys are not built":                                                                                     cert(func(c *tlsv3.TlsCertificate) { c.Password = src }),
		"tls_certificates[0].private_key_provider: private key providers":                                                                                        cert(func(c *tlsv3.TlsCertificate) { c.PrivateKeyProvider = &tlsv3.PrivateKeyProvider{} }),
		"tls_certificates[0].tls_params: parameters of single certificates":                                                                                      cert(func(c *tlsv3.TlsCertificate) { c.TlsParams = &params{} }),
		"ocsp_staple_policy: OCSP stapling is not built":                                                                                                         func(m *down) { m.OcspStaplePolicy = tlsv3.DownstreamTlsContext_MUST_STAPLE },
		"prefer_client_ciphers: Go's crypto/tls":                                                                                                                 func(m *down) { m.PreferClientCiphers = true },
		"common_tls_context.key_log: key logs are not built":                                                                                                     func(m *down) { m.CommonTlsContext.KeyLog = &tlsv3.TlsKeyLog{Path: "/x"} },
		"common_tls_context.custom_handshaker: handshaker extensions are not built":                                                                              func(m *down) { m.CommonTlsContext.CustomHandshaker = ext },
		"common_tls_context.custom_tls_certificate_selector: certificate selector extensions":                                                                    func(m *down) { m.CommonTlsContext.CustomTlsCertificateSelector = ext },
		"common_tls_context.alpn_protocols[1]: a protocol's name has 1 to 255 bytes":                                                                             func(m *down) { m.CommonTlsContext.AlpnProtocols = []string{"h2", ""} },
		"common_tls_context.tls_params.compliance_policies: compliance policies are not built":                                                                   param(&params{CompliancePolicies: []tlsv3.TlsParameters_CompliancePolicy{0}}),
		"cipher_suites[1]: Failed to initialize cipher suites AES128-SHA:[BOGUS|AES256-SHA]. The following ciphers were rejected when tried individually: BOGUS": param(&params{CipherSuites: []string{"AES128-SHA", "[BOGUS|AES256-SHA]"}}),
		"PSK-AES128-CBC-SHA is not available: Go's crypto/tls does not implement it":                                                                             param(&params{CipherSuites: []string{"PSK-AES128-CBC-SHA"}}),
		"the suites of TLS 1.3 are always on":                                                                                                                    param(&params{CipherSuites: []string{"TLS_AES_128_GCM_SHA256"}}),
		"cipher rules and aliases are not built":                                                                                                                 param(&params{CipherSuites: []string{"!AES128-SHA"}}),
		`unknown cipher suite "[AES128-SHA"`:                                                                                                                     param(&params{CipherSuites: []string{"[AES128-SHA"}}),
		`ecdh_curves[0]: Failed to initialize ECDH curves P-257: "P-257": unknown curve`:                                                                         param(&params{EcdhCurves: []string{"P-257"}}),
		`ecdh_curves[0]: Failed to initialize ECDH curves P-224: "P-224": Go's crypto/tls does not implement it`:                                                 param(&params{EcdhCurves: []string{"P-224"}}),
		`signature_algorithms[0]: Failed to initialize TLS signature algorithms rot13: "rot13": unknown`:                                                         param(&params{SignatureAlgorithms: []string{"rot13"}}),
		"tls_params: no TLS version is left: the minimum is TLSv1.3, the maximum TLSv1.2":                                                                        param(&params{TlsMinimumProtocolVersion: 4, TlsMaximumProtocolVersion: 3}),
		"tls_minimum_protocol_version: unknown value 9":                                                                                                          param(&params{TlsMinimumProtocolVersion: 9}),
		"validation_context: SAN-based verification of peer certificates without trusted CA is insecure and not allowed":                                         rule(func(v *rules) { sanRule(tlsv3.SubjectAltNameMatcher_DNS, "x")(v); v.TrustedCa = nil }),
		"validation_context: Certificate validity period is always ignored without trusted CA":                                                                   rule(func(v *rules) { v.TrustedCa, v.AllowExpiredCertificate = nil, true }),
		"validation_context.crl: Failed to load CRL from <inline> without trusted CA":                                                                            rule(func(v *rules) { v.TrustedCa, v.Crl = nil, inlineBytes(ca.crl(t, time.Now().Add(time.Hour))) }),
		"validation_context.crl: Failed to load CRL from <inline>: it holds no PEM block":                                                                        rule(func(v *rules) { v.Crl = src }),
		"validation_context.trusted_ca: Failed to load trusted CA certificates from <inline>":                                                                    rule(func(v *rules) { v.TrustedCa = src }),
		"verify_certificate_spki[0]: Invalid base64-encoded SHA-256 zz":                                                                                          rule(func(v *rules) { v.VerifyCertificateSpki = []string{"zz"} }),
		"verify_certificate_hash[0]: Invalid hex-encoded SHA-256 zz":                                                                                             rule(func(v *rules) { v.VerifyCertificateHash = []string{"zz"} }),
		"match_typed_subject_alt_names[0].san_type: must be EMAIL, DNS":                                                                                          rule(sanRule(0, "x")),
		"match_typed_subject_alt_names[0].oid: required for OTHER_NAME":                                                                                          rule(sanRule(tlsv3.SubjectAltNameMatcher_OTHER_NAME, "x")),
		"match_subject_alt_names[0].matcher: no match_pattern":                                                                                                   rule(func(v *rules) { v.MatchSubjectAltNames = []*matcherv3.StringMatcher{{}} }), //nolint:staticcheck // that is what is tested
		"validation_context.custom_validator_config: certificate validator extensions are not built":                                                             rule(func(v *rules) { v.CustomValidatorConfig = ext }),
		"validation_context.system_root_certs: not implemented by Envoy either":                                                                                  rule(func(v *rules) { v.SystemRootCerts = &tlsv3.CertificateValidationContext_SystemRootCerts{} }),
		"validation_context.require_signed_certificate_timestamp: not implemented":                                                                               rule(func(v *rules) { v.RequireSignedCertificateTimestamp = wrapperspb.Bool(true) }),
		"session_ticket_keys.keys[0]: Incorrect TLS session ticket key length. Length 1, expected length 80.":                                                    func(m *down) { m.SessionTicketKeysType = ticketKeys(src) },
		"session_ticket_keys.keys: at least one key is required":                                                                                                 func(m *down) { m.SessionTicketKeysType = ticketKeys() },
		"session_ticket_keys_sds_secret_config.name: Unknown static secret: gone": func(m *down) {
			m.SessionTicketKeysType = &tlsv3.DownstreamTlsContext_SessionTicketKeysSdsSecretConfig{SessionTicketKeysSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: "gone"}}
		},
		"tls_certificate_sds_secret_configs[0].sds_config: secret discovery needs an xDS source": func(m *down) {
			m.CommonTlsContext = &tlsv3.CommonTlsContext{TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: "s", SdsConfig: &corev3.ConfigSource{}}}}
		},
		"tls_certificate_sds_secret_configs: SDS and non-SDS TLS certificates may not be mixed": func(m *down) {
			m.CommonTlsContext.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{{Name: "s"}}
		},
	} {
		m := downstream(t, leaf)
		change(m)
		_, err := NewServer(m, Options{})
		checkError(t, err, want)
	}
	// Off is not asked for.
	m := downstream(t, leaf)
	validate(m.CommonTlsContext, &rules{RequireSignedCertificateTimestamp: wrapperspb.Bool(false)})
	_, err = NewServer(m, Options{})
	checkError(t, err, "")
}

func ticketKeys(keys ...*corev3.DataSource) *tlsv3.DownstreamTlsContext_SessionTicketKeys {
	return &tlsv3.DownstreamTlsContext_SessionTicketKeys{SessionTicketKeys: &tlsv3.TlsSessionTicketKeys{Keys: keys}}
}

// Proves TS-11, TS-18: what a client's message may not say.
func TestClientErrors(t *testing.T) {
	ca := newCA(t, "ca", nil)
	leaf := ca.leaf(t, "ecdsa", "x")
	for want, m := range map[string]*tlsv3.UpstreamTlsContext{
		"": {},
		"sni: SNI names containing NULL-byte are not allowed":                       {Sni: "a\x00b"},
		"sni: at most 255 bytes, this has 256":                                      {Sni: strings.Repeat("a", 256)},
		"allow_renegotiation: renegotiation is not built":                           {AllowRenegotiation: true},
		"auto_sni_san_validation: 'auto_sni_san_validation' was configured without": {AutoSniSanValidation: true},
		"Multiple TLS certificates are not supported for client contexts":           upstream(t, leaf, leaf),
		"the minimum is TLSv1.3, the maximum TLSv1.2 (the default maximum is":       {CommonTlsContext: &tlsv3.CommonTlsContext{TlsParams: &params{TlsMinimumProtocolVersion: 4}}},
	} {
		_, err := NewClient(m, Options{})
		checkError(t, err, want)
	}
}

// All that is wrong is said at once.
func TestErrorsAreJoined(t *testing.T) {
	_, err := NewServer(&down{PreferClientCiphers: true, CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsParams: &params{CipherSuites: []string{"A"}, EcdhCurves: []string{"B"}}, AlpnProtocols: []string{""},
		TlsCertificates: []*tlsv3.TlsCertificate{{}},
	}}, Options{})
	for _, want := range []string{"prefer_client_ciphers", "cipher_suites[0]", "ecdh_curves[0]", "alpn_protocols[0]", "tls_certificates[0].certificate_chain: Failed to load incomplete certificate"} {
		checkError(t, err, want)
	}
}

// Proves TS-14 for static secrets.
func TestStaticSecrets(t *testing.T) {
	ca := newCA(t, "ca", nil)
	leaf := ca.leaf(t, "ecdsa", "x", dns("good.test"))
	byName := func(n string) *tlsv3.SdsSecretConfig { return &tlsv3.SdsSecretConfig{Name: n} }
	o := Options{Secrets: map[string]*tlsv3.Secret{
		"cert":  {Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: leaf.proto(t)}},
		"trust": {Type: &tlsv3.Secret_ValidationContext{ValidationContext: trusting(ca)}},
		"keys":  {Type: &tlsv3.Secret_SessionTicketKeys{SessionTicketKeys: &tlsv3.TlsSessionTicketKeys{Keys: []*corev3.DataSource{inlineBytes(bytes.Repeat([]byte{1}, 80))}}}},
	}}
	names := &rules{}
	sanRule(tlsv3.SubjectAltNameMatcher_DNS, "bad.test")(names)
	m := &down{
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{byName("cert")},
			ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext: names, ValidationContextSdsSecretConfig: byName("trust"),
			}},
		},
		SessionTicketKeysType: &tlsv3.DownstreamTlsContext_SessionTicketKeysSdsSecretConfig{SessionTicketKeysSdsSecretConfig: byName("keys")},
	}
	server, err := NewServer(m, o)
	if err != nil {
		t.Fatal(err)
	}
	checkClass(t, mustClient(t, upstream(t, leaf)), server, ClassVerifySAN) // both halves count
	m.CommonTlsContext.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{ValidationContextSdsSecretConfig: byName("trust")}
	if server, err = NewServer(m, o); err != nil {
		t.Fatal(err)
	}
	checkClass(t, mustClient(t, upstream(t, leaf)), server, ClassNone)
	for _, tc := range []struct{ name, want string }{
		{"gone", "Unknown static certificate validation context: gone"}, {"cert", `secret "cert" is not a validation context`},
	} {
		bad := proto.CloneOf(m)
		bad.GetCommonTlsContext().GetValidationContextSdsSecretConfig().Name = tc.name
		_, err := NewServer(bad, o)
		checkError(t, err, tc.want)
	}
	m.CommonTlsContext.TlsCertificateSdsSecretConfigs[0].Name = "trust"
	_, err = NewServer(m, o)
	checkError(t, err, `secret "trust" is not a TLS certificate`)
}

// Nothing that is printed, logged or returned shows a key.
func TestSecretsAreNotShown(t *testing.T) {
	leaf := newCA(t, "ca", nil).leaf(t, "ecdsa", "x")
	const marker = "TOPSECRET"
	bad := downstream(t, leaf)
	bad.CommonTlsContext.TlsCertificates[0].PrivateKey = inlineString("-----BEGIN PRIVATE KEY-----\n" + marker + "\n-----END PRIVATE KEY-----\n")
	_, err1 := NewServer(bad, Options{})
	bad = downstream(t, leaf)
	bad.SessionTicketKeysType = ticketKeys(inlineString(marker))
	_, err2 := NewServer(bad, Options{})
	if err := errors.Join(err1, err2); err1 == nil || err2 == nil || strings.Contains(err.Error(), marker) {
		t.Errorf("got %v", err)
	}
	var log bytes.Buffer
	server, client := mustServer(t, downstream(t, leaf)), mustClient(t, upstream(t, leaf))
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "server", server, "client", client, "session", server.NewSession(ConnInfo{}))
	text := log.String() + fmt.Sprintf("%v %+v %#v %s", server, client, server, client.NewSession(ClientSessionOptions{}))
	if len(text) > 600 || strings.Contains(text, "0x") {
		t.Errorf("printed %s", text)
	}
}
