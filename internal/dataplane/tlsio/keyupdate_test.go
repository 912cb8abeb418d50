package tlsio

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// trafficKeys are one direction's keys of TLS 1.3 with AES-128-GCM, as RFC
// 8446 section 7 derives them.
type trafficKeys struct {
	t      *testing.T
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func (k *trafficKeys) expand(label string, n int) []byte {
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(6+len(label)))
	info = append(info, "tls13 "+label...)
	out, err := hkdf.Expand(sha256.New, k.secret, string(append(info, 0)), n)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

func (k *trafficKeys) use(secret []byte) {
	k.secret, k.seq = secret, 0
	block, err := aes.NewCipher(k.expand("key", 16))
	if err != nil {
		k.t.Fatal(err)
	}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		k.t.Fatal(err)
	}
	k.iv = k.expand("iv", 12)
}

func (k *trafficKeys) update() { k.use(k.expand("traffic upd", 32)) }

func (k *trafficKeys) nonce() []byte {
	n := bytes.Clone(k.iv)
	for i := range 8 {
		n[4+i] ^= byte(k.seq >> (56 - 8*i))
	}
	k.seq++
	return n
}

func (k *trafficKeys) seal(kind byte, data []byte) []byte {
	plain := append(bytes.Clone(data), kind)
	head := []byte{23, 3, 3, 0, 0}
	binary.BigEndian.PutUint16(head[3:], uint16(len(plain)+16))
	return k.aead.Seal(head, k.nonce(), plain, head)
}

func (k *trafficKeys) open(record []byte) (kind byte, data []byte, rest []byte) {
	k.t.Helper()
	n := 5 + int(binary.BigEndian.Uint16(record[3:]))
	plain, err := k.aead.Open(nil, k.nonce(), record[5:n], record[:5])
	if err != nil {
		k.t.Fatalf("record %d: %v", k.seq-1, err)
	}
	return plain[len(plain)-1], plain[:len(plain)-1], record[n:]
}

// A peer that changes its keys and asks us to change ours (RFC 8446 section
// 4.6.3), with the message cut at every byte. The peer is a client of which we know
// the secrets.
func TestKeyUpdate(t *testing.T) {
	client, server := simple(t, tlsv3.TlsParameters_TLSv1_3)
	var log bytes.Buffer
	client.cfg.KeyLogWriter = &log
	l := connect(newWorker(t), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
	if l.b.err != nil || l.b.Negotiated().Cipher != "TLS_AES_128_GCM_SHA256" {
		t.Fatal(l.b.err, l.b.Negotiated())
	}
	secret := func(label string) []byte {
		_, rest, _ := strings.Cut(log.String(), label+" ")
		line, _, _ := strings.Cut(rest, "\n")
		_, text, _ := strings.Cut(line, " ")
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != 32 {
			t.Fatalf("%s: %v", label, err)
		}
		return b
	}
	send, receive := &trafficKeys{t: t}, &trafficKeys{t: t}
	send.use(secret("CLIENT_TRAFFIC_SECRET_0"))
	receive.use(secret("SERVER_TRAFFIC_SECRET_0"))
	receive.seq = 1 // the ticket went before

	const handshakeType, dataType = 22, 23
	for round := range 3 {
		records := send.seal(dataType, []byte("before"))
		records = append(records, send.seal(handshakeType, []byte{24, 0})...) // in two records
		records = append(records, send.seal(handshakeType, []byte{0, 1, 1})...)
		send.update()
		records = append(records, send.seal(dataType, []byte("after"))...)
		for _, b := range records {
			l.b.Feed([]byte{b})
			l.b.drain()
		}
		if string(l.b.got) != "beforeafter" || l.b.over != nil {
			t.Fatalf("round %d: got %q, %v", round, l.b.got, l.b.over)
		}
		l.b.got = nil
		if err := l.b.Write([]byte("answer")); err != nil {
			t.Fatal(err)
		}
		kind, data, rest := receive.open(l.b.Output())
		if kind != handshakeType || !bytes.Equal(data, []byte{24, 0, 0, 1, 0}) {
			t.Fatalf("round %d: no key update comes back, but %d %x", round, kind, data)
		}
		receive.update()
		if kind, data, _ = receive.open(rest); kind != dataType || string(data) != "answer" {
			t.Fatalf("round %d: got %d %q", round, kind, data)
		}
		l.b.Consumed(len(l.b.Output()))
	}
	l.b.Feed(send.seal(21, []byte{1, 0})) // close_notify
	if _, err := l.b.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
