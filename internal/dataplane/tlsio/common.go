package tlsio

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// common is what both kinds of context read from CommonTlsContext.
type common struct {
	certs   []*certificate
	verify  *verifier
	sigAlgs []tls.SignatureScheme // nil: crypto/tls decides
	alpn    []string
	buffers buffers
}

const commonPath = "common_tls_context"

// readCommon reads everything but the parameters that go into the tls.Config
// alone, which it returns.
func (o Options) readCommon(c *tlsv3.CommonTlsContext, server bool) (*common, *tls.Config, error) {
	const hidden = "not implemented by Envoy either: remove it"
	err := refuseUnbuilt(commonPath, c, []string{
		"tls_params", "tls_certificates", "tls_certificate_sds_secret_configs", "validation_context",
		"validation_context_sds_secret_config", "combined_validation_context", "alpn_protocols",
	}, map[string]string{
		"key_log":                                          "key logs are not built",
		"custom_handshaker":                                "handshaker extensions are not built",
		"custom_tls_certificate_selector":                  "certificate selector extensions are not built",
		"tls_certificate_provider_instance":                hidden,
		"tls_certificate_certificate_provider":             hidden,
		"tls_certificate_certificate_provider_instance":    hidden,
		"validation_context_certificate_provider":          hidden,
		"validation_context_certificate_provider_instance": hidden,
	})
	if err != nil {
		return nil, nil, err
	}
	usage, maxVersion := x509.ExtKeyUsageClientAuth, uint16(tls.VersionTLS13)
	if !server {
		usage, maxVersion = x509.ExtKeyUsageServerAuth, tls.VersionTLS12
	}
	out := &common{}
	cfg, sigAlgs, paramsErr := readParams(commonPath+".tls_params", c.GetTlsParams(), maxVersion)
	out.sigAlgs = sigAlgs
	var certErr, verifyErr, alpnErr error
	out.certs, certErr = o.readCertificates(c)
	validation, path, verifyErr := o.validationContext(c)
	if verifyErr == nil {
		out.verify, verifyErr = o.newVerifier(path, validation, usage)
	}
	out.alpn, alpnErr = readALPN(c.GetAlpnProtocols())
	if err := errors.Join(paramsErr, certErr, verifyErr, alpnErr); err != nil {
		return nil, nil, err
	}
	for _, cert := range out.certs {
		cert.tls.SupportedSignatureAlgorithms = sigAlgs
	}
	cfg.Time = o.Now
	cfg.NextProtos = out.alpn
	// Records of full size: the worker sends whole batches, and the small
	// records crypto/tls would begin with cost more than they save.
	cfg.DynamicRecordSizingDisabled = true
	return out, cfg, nil
}

// checkSignature enforces signature_algorithms on the peer's signature, which
// crypto/tls does not let us restrict beforehand.
func (c *common) checkSignature(n Negotiated) error {
	if len(c.sigAlgs) == 0 || n.SigAlg == "" {
		return nil
	}
	for _, a := range c.sigAlgs {
		if sigAlgName(a) == n.SigAlg {
			return nil
		}
	}
	return policyError("peer signed with " + n.SigAlg + ", which signature_algorithms does not list")
}

func readParams(path string, p *tlsv3.TlsParameters, maxDefault uint16) (*tls.Config, []tls.SignatureScheme, error) {
	refused := refuseUnbuilt(path, p, []string{
		"tls_minimum_protocol_version", "tls_maximum_protocol_version", "cipher_suites", "ecdh_curves", "signature_algorithms",
	}, map[string]string{"compliance_policies": "compliance policies are not built: set versions, cipher_suites and ecdh_curves"})
	minVersion, err1 := readVersion(path+".tls_minimum_protocol_version", p.GetTlsMinimumProtocolVersion(), tls.VersionTLS12)
	maxVersion, err2 := readVersion(path+".tls_maximum_protocol_version", p.GetTlsMaximumProtocolVersion(), maxDefault)
	suiteIDs, err3 := parseSuites(path+".cipher_suites", p.GetCipherSuites())
	curveIDs, err4 := parseCurves(path+".ecdh_curves", p.GetEcdhCurves())
	sigAlgs, err5 := parseSigAlgs(path+".signature_algorithms", p.GetSignatureAlgorithms())
	if err := errors.Join(refused, err1, err2, err3, err4, err5); err != nil {
		return nil, nil, err
	}
	if minVersion > maxVersion {
		return nil, nil, fmt.Errorf("%s: no TLS version is left: the minimum is %s, the maximum %s (the default maximum is TLSv1.3 for servers, TLSv1.2 for clients): set tls_maximum_protocol_version",
			path, versionName(minVersion), versionName(maxVersion))
	}
	if len(sigAlgs) > 0 && !knowsPeerSignature() {
		return nil, nil, fmt.Errorf("%s.signature_algorithms: this release of Go does not tell the peer's algorithm: remove it", path)
	}
	return &tls.Config{MinVersion: minVersion, MaxVersion: maxVersion, CipherSuites: suiteIDs, CurvePreferences: curveIDs}, sigAlgs, nil
}

func readVersion(path string, v tlsv3.TlsParameters_TlsProtocol, auto uint16) (uint16, error) {
	switch v {
	case tlsv3.TlsParameters_TLS_AUTO:
		return auto, nil
	case tlsv3.TlsParameters_TLSv1_0:
		return tls.VersionTLS10, nil
	case tlsv3.TlsParameters_TLSv1_1:
		return tls.VersionTLS11, nil
	case tlsv3.TlsParameters_TLSv1_2:
		return tls.VersionTLS12, nil
	case tlsv3.TlsParameters_TLSv1_3:
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("%s: unknown value %d", path, v)
}

func readALPN(names []string) ([]string, error) {
	for i, n := range names {
		if n == "" || len(n) > 255 {
			return nil, fmt.Errorf("%s.alpn_protocols[%d]: a protocol's name has 1 to 255 bytes, this has %d", commonPath, i, len(n))
		}
	}
	return names, nil
}

// readCertificates reads tls_certificates or, without any, the static secrets
// that are named instead.
func (o Options) readCertificates(c *tlsv3.CommonTlsContext) ([]*certificate, error) {
	var (
		out  []*certificate
		errs []error
	)
	add := func(path string, t *tlsv3.TlsCertificate) {
		cert, err := o.loadCertificate(path, t)
		out, errs = append(out, cert), append(errs, err)
	}
	for i, t := range c.GetTlsCertificates() {
		add(fmt.Sprintf("%s.tls_certificates[%d]", commonPath, i), t)
	}
	named := c.GetTlsCertificateSdsSecretConfigs()
	if len(out) > 0 && len(named) > 0 {
		errs = append(errs, fmt.Errorf("%s.tls_certificate_sds_secret_configs: SDS and non-SDS TLS certificates may not be mixed in server contexts: remove one of them", commonPath))
	}
	for i, n := range named {
		path := fmt.Sprintf("%s.tls_certificate_sds_secret_configs[%d]", commonPath, i)
		secret, err := o.secret(path, "Unknown static secret", n)
		switch {
		case err != nil:
			errs = append(errs, err)
		case secret.GetTlsCertificate() == nil:
			errs = append(errs, fmt.Errorf("%s.name: secret %q is not a TLS certificate", path, n.GetName()))
		default:
			add(fmt.Sprintf("secret %q: tls_certificate", n.GetName()), secret.GetTlsCertificate())
		}
	}
	return out, errors.Join(errs...)
}

// secret finds a static secret (TS-14).
func (o Options) secret(path, unknown string, c *tlsv3.SdsSecretConfig) (*tlsv3.Secret, error) {
	if c.GetSdsConfig() != nil {
		if o.Discovered == nil {
			return nil, fmt.Errorf("%s.sds_config: %s", path, needsXDS)
		}
		if s := o.Discovered(c); s != nil {
			return s, nil
		}
		return nil, fmt.Errorf("%s.name: secret %q: %w", path, c.GetName(), ErrSecretMissing)
	}
	s, ok := o.Secrets[c.GetName()]
	if !ok {
		return nil, fmt.Errorf("%s.name: %s: %s", path, unknown, c.GetName())
	}
	return s, nil
}

// validationContext finds the validation context and where it is, nil if
// there is none.
func (o Options) validationContext(c *tlsv3.CommonTlsContext) (*tlsv3.CertificateValidationContext, string, error) {
	switch v := c.GetValidationContextType().(type) {
	case *tlsv3.CommonTlsContext_ValidationContext:
		return v.ValidationContext, commonPath + ".validation_context", nil
	case *tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig:
		return o.validationSecret(commonPath+".validation_context_sds_secret_config", v.ValidationContextSdsSecretConfig)
	case *tlsv3.CommonTlsContext_CombinedValidationContext:
		path := commonPath + ".combined_validation_context"
		const hidden = "not implemented by Envoy either: remove it"
		err := refuseUnbuilt(path, v.CombinedValidationContext, []string{"default_validation_context", "validation_context_sds_secret_config"}, map[string]string{
			"validation_context_certificate_provider":          hidden,
			"validation_context_certificate_provider_instance": hidden,
		})
		if err != nil {
			return nil, "", err
		}
		dynamic, _, err := o.validationSecret(path+".validation_context_sds_secret_config", v.CombinedValidationContext.GetValidationContextSdsSecretConfig())
		if err != nil {
			return nil, "", err
		}
		merged := &tlsv3.CertificateValidationContext{}
		proto.Merge(merged, v.CombinedValidationContext.GetDefaultValidationContext())
		proto.Merge(merged, dynamic)
		return merged, path, nil
	}
	return nil, "", nil
}

func (o Options) validationSecret(path string, c *tlsv3.SdsSecretConfig) (*tlsv3.CertificateValidationContext, string, error) {
	secret, err := o.secret(path, "Unknown static certificate validation context", c)
	if err != nil {
		return nil, "", err
	}
	if secret.GetValidationContext() == nil {
		return nil, "", fmt.Errorf("%s.name: secret %q is not a validation context", path, c.GetName())
	}
	return secret.GetValidationContext(), fmt.Sprintf("secret %q: validation_context", c.GetName()), nil
}
