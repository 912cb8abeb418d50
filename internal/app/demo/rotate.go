package demo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/xebec-proxy/xebec/xds"
)

// secure is a client that opens a connection with TLS for each request.
type secure struct {
	address string
	trusts  *x509.CertPool
}

// greet makes a request on a connection of its own.
func (c secure) greet(ctx context.Context) (string, error) {
	creds := credentials.NewTLS(&tls.Config{RootCAs: c.trusts, MinVersion: tls.VersionTLS13})
	conn, err := grpc.NewClient("passthrough:///"+c.address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return "", fmt.Errorf("dialling %s: %w", c.address, err)
	}
	defer conn.Close()
	return (&client{conn: conn, target: c.address, now: true}).greet(ctx)
}

// certificate is what the proxy shows a new connection.
func (c secure) certificate(ctx context.Context) (*x509.Certificate, error) {
	d := tls.Dialer{Config: &tls.Config{RootCAs: c.trusts, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}}
	conn, err := d.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", c.address, err)
	}
	defer conn.Close()
	t, ok := conn.(*tls.Conn)
	if !ok || len(t.ConnectionState().PeerCertificates) == 0 {
		return nil, errors.New("there is no certificate")
	}
	return t.ConnectionState().PeerCertificates[0], nil
}

func describe(c *x509.Certificate) string {
	return fmt.Sprintf("%x, valid until %s", c.SerialNumber, c.NotAfter.UTC().Format(time.DateTime))
}

// rotate replaces the certificate of the proxy's port with TLS while clients
// connect, none of which may fail.
func (s *story) rotate(ctx context.Context) error {
	if s.tls == nil {
		return nil
	}
	s.say("Edit %s: a new certificate, while clients connect with TLS to %s all the time", certificateFile, s.tls.address)
	old, err := s.tls.certificate(ctx)
	if err != nil {
		return err
	}
	s.add("The proxy shows the certificate %s", describe(old))
	secret := xds.Key{Type: xds.SecretType, Name: secretName}
	before, err := s.resource(ctx, proxyNode, secret)
	if err != nil {
		return err
	}
	load := startLoad(ctx, s.tls.greet)
	defer load.stop()
	if err := load.more(ctx, certainty); err != nil {
		return err
	}
	began := time.Now()
	if err := s.dir.writeCertificate(s.authority, 2*day); err != nil {
		return err
	}
	if err := s.accepted(ctx, proxyNode, secret, before.Version, began); err != nil {
		return err
	}
	if err := s.shown(ctx, old, began); err != nil {
		return err
	}
	if err := load.more(ctx, certainty); err != nil {
		return err
	}
	sent, failed := load.stop()
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d connections failed while the certificate was replaced: %s", len(failed), sent, strings.Join(failed, "; "))
	}
	s.add("Of %d connections meanwhile none failed", sent)
	return nil
}

// shown waits until new connections see another certificate.
func (s *story) shown(ctx context.Context, old *x509.Certificate, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		now, err := s.tls.certificate(ctx)
		switch {
		case err != nil:
			return err
		case now.SerialNumber.Cmp(old.SerialNumber) != 0:
			s.add("It shows %s, %v after the edit", describe(now), since(began))
			return nil
		}
	}
}
