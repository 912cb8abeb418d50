package edge

import (
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
)

func mutual(p *filter.CertInfo) *filter.TLSInfo {
	return &filter.TLSInfo{PeerPresented: p != nil, Peer: p, Local: &filter.CertInfo{URISANs: []string{"spiffe://td/srv", "spiffe://td/srv2"}}}
}

func rich() *filter.CertInfo {
	return &filter.CertInfo{
		Fingerprint256: "f5b5", PEM: "-----BEGIN%20", Chain: "-----BEGIN%20CHAIN", Subject: `CN=client,O=My \"Org\"\, Inc\;x\\y`,
		URISANs: []string{"spiffe://td/a", "spiffe://td/b;c=d"}, DNSSANs: []string{"a.example", "b.example"},
	}
}

const someDetails = `"setCurrentClientCertDetails":{"subject":true,"dns":true,"uri":true}`

// Proves HC-36: modes, with and without a client certificate, measured on
// Envoy 1.40.
func TestClientCertModes(t *testing.T) {
	plain := &filter.CertInfo{Fingerprint256: "f540", Subject: "CN=plain"}
	const element = `By=spiffe://td/srv;By=spiffe://td/srv2;Hash=f540;Subject="CN=plain";URI=`
	old := []string{"By=old;Hash=1"}
	for _, tc := range []struct {
		mode string
		tls  *filter.TLSInfo
		old  []string
		want string
	}{
		{"SANITIZE", mutual(plain), old, "-"},
		{"SANITIZE", nil, old, "-"},
		{"FORWARD_ONLY", mutual(plain), nil, "-"},
		{"FORWARD_ONLY", mutual(plain), old, old[0]},
		{"FORWARD_ONLY", mutual(plain), []string{"a", "b"}, "a,b"},
		{"FORWARD_ONLY", mutual(nil), old, "-"},
		{"FORWARD_ONLY", nil, old, "-"},
		{"APPEND_FORWARD", mutual(plain), nil, element},
		{"APPEND_FORWARD", mutual(plain), old, old[0] + "," + element},
		{"APPEND_FORWARD", mutual(plain), []string{"a", "b"}, "a,b," + element},
		{"APPEND_FORWARD", mutual(plain), []string{""}, element},
		{"APPEND_FORWARD", mutual(nil), old, "-"},
		{"APPEND_FORWARD", nil, old, "-"},
		{"SANITIZE_SET", mutual(plain), []string{"a", "b"}, element},
		{"SANITIZE_SET", mutual(nil), old, "-"},
		{"SANITIZE_SET", nil, old, "-"},
		{"ALWAYS_FORWARD_ONLY", mutual(plain), old, old[0]},
		{"ALWAYS_FORWARD_ONLY", mutual(nil), old, old[0]},
		{"ALWAYS_FORWARD_ONLY", nil, []string{"a", "b"}, "a,b"},
		{"ALWAYS_FORWARD_ONLY", nil, nil, "-"},
	} {
		var lines []string
		for _, v := range tc.old {
			lines = append(lines, "x-forwarded-client-cert: "+v)
		}
		r := rulesOf(t, `"forwardClientCertDetails":"`+tc.mode+`",`+someDetails)
		if got := r.ask(ask{tls: tc.tls, lines: lines}).get("x-forwarded-client-cert"); got != tc.want {
			t.Errorf("%s %v, TLS %t: %s, want %s", tc.mode, tc.old, tc.tls != nil, got, tc.want)
		}
	}
	if rulesOf(t, "").ask(ask{lines: []string{"x-forwarded-client-cert: a"}}).h.Has("x-forwarded-client-cert") {
		t.Error("by default the header stayed")
	}
}

// Proves HC-36: the details and their order, and By only for a listener whose
// certificate has a URI.
func TestClientCertDetails(t *testing.T) {
	subject := `;Subject="CN=client,O=My \"Org\"\, Inc\;x\\y"`
	const uris, names = ";URI=spiffe://td/a;URI=spiffe://td/b;c=d", ";DNS=a.example;DNS=b.example"
	for details, want := range map[string]string{
		`{}`:                "Hash=f5b5",
		`{"subject":true}`:  "Hash=f5b5" + subject,
		`{"subject":false}`: "Hash=f5b5",
		`{"uri":true}`:      "Hash=f5b5" + uris,
		`{"dns":true}`:      "Hash=f5b5" + names,
		`{"cert":true}`:     `Hash=f5b5;Cert="-----BEGIN%20"`,
		`{"chain":true}`:    `Hash=f5b5;Chain="-----BEGIN%20CHAIN"`,
		`{"dns":true,"uri":true,"chain":true,"cert":true,"subject":true}`: `Hash=f5b5;Cert="-----BEGIN%20";Chain="-----BEGIN%20CHAIN"` + subject + uris + names,
	} {
		r := rulesOf(t, `"forwardClientCertDetails":"SANITIZE_SET","setCurrentClientCertDetails":`+details)
		got := r.ask(ask{tls: mutual(rich())}).get("x-forwarded-client-cert")
		if by := "By=spiffe://td/srv;By=spiffe://td/srv2;"; got != by+want {
			t.Errorf("%s: %s, want %s", details, got, by+want)
		}
		info := mutual(rich())
		info.Local = &filter.CertInfo{DNSSANs: []string{"x.example"}}
		if got := r.ask(ask{tls: info}).get("x-forwarded-client-cert"); got != want {
			t.Errorf("%s: %s, want %s", details, got, want)
		}
	}
	r := rulesOf(t, `"forwardClientCertDetails":"SANITIZE_SET",`+someDetails)
	if got := r.ask(ask{tls: mutual(&filter.CertInfo{Fingerprint256: "1"})}).get("x-forwarded-client-cert"); !strings.HasSuffix(got, `;Subject="";URI=`) {
		t.Errorf("a certificate with nothing gives %s", got)
	}
}
