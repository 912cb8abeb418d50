package xdsserver_test

import (
	"bytes"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/xds"
)

// Proves XD-10: no kind of secret is shown, wherever it is; what is no secret
// is.
func TestDumpsShowNoSecrets(t *testing.T) {
	const hidden, shown = "HIDDEN", "SHOWN"
	inline := func(s string) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
	}
	raw := &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(hidden)}}
	cert := &tlsv3.TlsCertificate{CertificateChain: inline(shown), PrivateKey: inline(hidden), Password: raw, Pkcs12: raw}
	ticket := &tlsv3.TlsSessionTicketKeys{Keys: []*corev3.DataSource{raw, inline(hidden)}}
	newer := &tlsv3.TlsCertificate{CertificateChain: inline(shown)}
	newer.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType), hidden))
	key := &tlsv3.PrivateKeyProvider{ProviderName: shown, ConfigType: &tlsv3.PrivateKeyProvider_TypedConfig{TypedConfig: packed(t, structpb.NewStringValue(hidden))}}
	listed := &tlsv3.DownstreamTlsContext{
		CommonTlsContext:      &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{cert}, AlpnProtocols: []string{shown}},
		SessionTicketKeysType: &tlsv3.DownstreamTlsContext_SessionTicketKeys{SessionTicketKeys: ticket},
	}
	certificate := func(c *tlsv3.TlsCertificate) *tlsv3.Secret {
		return &tlsv3.Secret{Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: c}}
	}
	generic := func(g *tlsv3.GenericSecret) *tlsv3.Secret {
		return &tlsv3.Secret{Name: shown, Type: &tlsv3.Secret_GenericSecret{GenericSecret: g}}
	}
	for name, m := range map[string]proto.Message{
		"certificate":     certificate(cert),
		"key provider":    certificate(&tlsv3.TlsCertificate{CertificateChain: inline(shown), PrivateKeyProvider: key}),
		"ticket keys":     &tlsv3.Secret{Name: shown, Type: &tlsv3.Secret_SessionTicketKeys{SessionTicketKeys: ticket}},
		"generic":         generic(&tlsv3.GenericSecret{Secret: raw}),
		"generic, many":   generic(&tlsv3.GenericSecret{Secrets: map[string]*corev3.DataSource{"a": raw, "b": inline(hidden)}}),
		"a newer field":   certificate(newer),
		"inside an Any":   &corev3.TypedExtensionConfig{Name: shown, TypedConfig: packed(t, listed)},
		"in nested Anys":  &corev3.TypedExtensionConfig{Name: shown, TypedConfig: packed(t, &corev3.TypedExtensionConfig{TypedConfig: packed(t, listed)})},
		"in unknown Anys": &corev3.TypedExtensionConfig{Name: shown, TypedConfig: &anypb.Any{TypeUrl: xds.TypePrefix + "x.Y", Value: []byte(hidden)}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(h *harness) {
				r, err := xds.Marshal("s", m)
				if err != nil {
					t.Fatal(err)
				}
				h.set(r)
				d := h.delta()
				d.subscribe(node("d"), r.TypeURL(), "s")
				sent := d.must()
				if !bytes.Contains(sent.GetResources()[0].GetResource().GetValue(), []byte(hidden)) {
					t.Fatal("the client was not sent the secret")
				}
				d.nack(sent, "no") // the rejected resource is shown a second time
				data, err := proto.Marshal(h.csds(&statusv3.ClientStatusRequest{}))
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(data, []byte(hidden)) {
					t.Errorf("a dump shows the secret: %q", data)
				}
				if !bytes.Contains(data, []byte(shown)) {
					t.Errorf("a dump hides what is no secret: %q", data)
				}
			})
		})
	}
	t.Run("a type that is not known", func(t *testing.T) {
		bubble(t, nil, func(h *harness) {
			h.set(xds.NewResource("unknown.Type", "s", []byte(hidden)))
			d := h.delta()
			d.subscribe(node("d"), "unknown.Type", "s")
			d.must()
			g := h.csds(&statusv3.ClientStatusRequest{}).GetConfig()[0].GetGenericXdsConfigs()[0]
			if g.GetXdsConfig() != nil || g.GetName() != "s" {
				t.Errorf("dump %v", g)
			}
		})
	})
}

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
