package tlsio

import (
	"errors"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// ErrSecretMissing is why a context cannot be built that needs a secret which
// has not come yet. The text is Envoy's.
var ErrSecretMissing = errors.New("Secret is not supplied by SDS") //nolint:staticcheck // Envoy's text

// OnlySecretsMissing reports whether a context could be built if the secrets
// were there: err, of NewServer or NewClient, complains of nothing else.
func OnlySecretsMissing(err error) bool {
	if err == nil {
		return false
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			if !OnlySecretsMissing(e) {
				return false
			}
		}
		return true
	}
	if one, ok := err.(interface{ Unwrap() error }); ok && one.Unwrap() != nil {
		return OnlySecretsMissing(one.Unwrap())
	}
	return errors.Is(err, ErrSecretMissing)
}

// DiscoveredByServer are the secrets of a server's context that come from a
// config source, DiscoveredByClient those of a client's.
func DiscoveredByServer(m *tlsv3.DownstreamTlsContext) []*tlsv3.SdsSecretConfig {
	return discovered(append(secretsOf(m.GetCommonTlsContext()), m.GetSessionTicketKeysSdsSecretConfig()))
}

// DiscoveredByClient is DiscoveredByServer for clients.
func DiscoveredByClient(m *tlsv3.UpstreamTlsContext) []*tlsv3.SdsSecretConfig {
	return discovered(secretsOf(m.GetCommonTlsContext()))
}

func secretsOf(c *tlsv3.CommonTlsContext) []*tlsv3.SdsSecretConfig {
	out := append([]*tlsv3.SdsSecretConfig(nil), c.GetTlsCertificateSdsSecretConfigs()...)
	return append(out, c.GetValidationContextSdsSecretConfig(), c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig())
}

func discovered(list []*tlsv3.SdsSecretConfig) []*tlsv3.SdsSecretConfig {
	var out []*tlsv3.SdsSecretConfig
	for _, c := range list {
		if c.GetSdsConfig() != nil {
			out = append(out, c)
		}
	}
	return out
}
