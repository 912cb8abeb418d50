package tlsio

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// ticketKeyLength is the length of a key in session_ticket_keys.
const ticketKeyLength = 80

// setResumption reads what concerns the resumption of sessions (TS-16).
//
// crypto/tls resumes by tickets only. So disable_stateful_session_resumption
// asks for what is the case anyway, and disable_stateless_session_resumption ends
// resumption altogether. session_timeout holds for all versions of TLS. Without
// session_ticket_keys, crypto/tls makes keys of its own and replaces them daily.
func (o Options) setResumption(m *tlsv3.DownstreamTlsContext, c *common, cfg *tls.Config) error {
	keys, err := o.ticketKeys(m)
	if err != nil {
		return err
	}
	timeout := time.Duration(0)
	if d := m.GetSessionTimeout(); d != nil {
		if !d.IsValid() || d.GetSeconds() < 0 || d.GetSeconds() >= 1<<32 {
			return fmt.Errorf("session_timeout: must be at least 0s and below %ds", int64(1)<<32)
		}
		timeout = d.AsDuration().Truncate(time.Second)
	}
	if m.GetDisableStatelessSessionResumption() {
		cfg.SessionTicketsDisabled = true
		return nil
	}
	// The keys and the crypto belong to this copy; what it wraps is stamped
	// with when and for whom, which is checked when a client comes back.
	crypter := cfg.Clone()
	if len(keys) > 0 {
		crypter.SetSessionTicketKeys(keys)
	}
	t := &tickets{cfg: crypter, timeout: timeout, now: o.Now, owner: ownerOf(m, c)}
	cfg.WrapSession, cfg.UnwrapSession = t.wrap, t.unwrap
	return nil
}

// ticketKeys reads session_ticket_keys; the first encrypts, all decrypt.
func (o Options) ticketKeys(m *tlsv3.DownstreamTlsContext) ([][32]byte, error) {
	var (
		keys *tlsv3.TlsSessionTicketKeys
		path string
	)
	switch k := m.GetSessionTicketKeysType().(type) {
	case *tlsv3.DownstreamTlsContext_SessionTicketKeys:
		keys, path = k.SessionTicketKeys, "session_ticket_keys"
	case *tlsv3.DownstreamTlsContext_SessionTicketKeysSdsSecretConfig:
		const at = "session_ticket_keys_sds_secret_config"
		secret, err := o.secret(at, "Unknown static secret", k.SessionTicketKeysSdsSecretConfig)
		if err != nil {
			return nil, err
		}
		keys, path = secret.GetSessionTicketKeys(), fmt.Sprintf("secret %q: session_ticket_keys", k.SessionTicketKeysSdsSecretConfig.GetName())
		if keys == nil {
			return nil, fmt.Errorf("%s.name: secret %q holds no session ticket keys", at, k.SessionTicketKeysSdsSecretConfig.GetName())
		}
	default:
		return nil, nil
	}
	if len(keys.GetKeys()) == 0 {
		return nil, fmt.Errorf("%s.keys: at least one key is required", path)
	}
	out := make([][32]byte, 0, len(keys.GetKeys()))
	for i, src := range keys.GetKeys() {
		at := fmt.Sprintf("%s.keys[%d]", path, i)
		data, from, err := o.load(at, src)
		if err != nil {
			return nil, err
		}
		if len(data) != ticketKeyLength {
			return nil, fmt.Errorf("%s: Incorrect TLS session ticket key length. Length %d, expected length %d. (%s)", at, len(data), ticketKeyLength, from)
		}
		// crypto/tls wants 32 bytes: take all of the 80 into account.
		out = append(out, sha256.Sum256(append([]byte("xebec session ticket key\x00"), data...)))
	}
	return out, nil
}

// ownerOf identifies what a session was established under, so that a session
// of one filter chain is not continued on another that has the same ticket
// keys but other certificates or other demands on clients. Renewed
// certificates leave it as it is.
func ownerOf(m *tlsv3.DownstreamTlsContext, c *common) [sha256.Size]byte {
	h := sha256.New()
	part := func(b []byte) {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		_, _ = h.Write(b) // a hash does not fail
	}
	for _, cert := range c.certs {
		part(cert.leaf.RawSubject)
		part(cert.leaf.RawIssuer)
		for _, ext := range cert.leaf.Extensions {
			if ext.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
				part(ext.Value)
			}
		}
	}
	part([]byte("anchors"))
	for _, a := range c.verify.anchors {
		part(a.Raw)
	}
	common := m.GetCommonTlsContext()
	for _, v := range []proto.Message{
		common.GetValidationContext(), common.GetCombinedValidationContext(), common.GetValidationContextSdsSecretConfig(), m.GetRequireClientCertificate(),
	} {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(v)
		if err != nil {
			b = []byte(err.Error())
		}
		part(b)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// tickets makes and reads session tickets.
type tickets struct {
	cfg     *tls.Config
	timeout time.Duration // 0: that of crypto/tls, seven days
	now     func() time.Time
	owner   [sha256.Size]byte
}

// stampTag begins our entry in a session's Extra.
const stampTag = "xebec1"

func (t *tickets) wrap(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
	stamp := append([]byte(stampTag), t.owner[:]...)
	stamp = binary.BigEndian.AppendUint64(stamp, uint64(t.now().Unix())) //nolint:gosec // read back the same way
	ss.Extra = append(ss.Extra, stamp)
	return t.cfg.EncryptTicket(cs, ss)
}

// unwrap answers nil for a ticket that is not ours, belongs to other rules or
// is too old: then there is a full handshake.
func (t *tickets) unwrap(identity []byte, cs tls.ConnectionState) (*tls.SessionState, error) {
	ss, err := t.cfg.DecryptTicket(identity, cs)
	if err != nil || ss == nil {
		return nil, err
	}
	for _, e := range ss.Extra {
		rest, ok := bytes.CutPrefix(e, []byte(stampTag))
		if !ok || len(rest) != sha256.Size+8 || !bytes.Equal(rest[:sha256.Size], t.owner[:]) {
			continue
		}
		issued := time.Unix(int64(binary.BigEndian.Uint64(rest[sha256.Size:])), 0) //nolint:gosec // written the same way
		if t.timeout == 0 || t.now().Sub(issued) < t.timeout {
			return ss, nil
		}
	}
	return nil, nil
}
