package app

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestSettingsAreChecked(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Settings)
		want   string // in the error; empty if there is none
	}{
		{"loopback", func(*Settings) {}, ""},
		{"IPv6 loopback", func(s *Settings) { s.XDSAddress = "[::1]:0" }, ""},
		{"no directory", func(s *Settings) { s.Dir = "" }, "--dir"},
		{"both ways", func(s *Settings) { s.Lenient, s.Strict = true, true }, "exclude one another"},
		{"plaintext for all", func(s *Settings) { s.XDSAddress = ":18000" }, "every address"},
		{"plaintext for all, IPv4", func(s *Settings) { s.XDSAddress = "0.0.0.0:18000" }, "not a loopback"},
		{"plaintext for others", func(s *Settings) { s.XDSAddress = "192.0.2.1:18000" }, "not a loopback"},
		{"plaintext for others, wanted", func(s *Settings) { s.XDSAddress, s.Insecure = "192.0.2.1:18000", true }, ""},
		{"TLS for others", func(s *Settings) { s.XDSAddress, s.TLSCert, s.TLSKey = "192.0.2.1:18000", "c", "k" }, ""},
		{"half of TLS", func(s *Settings) { s.TLSKey = "k" }, "belong together"},
		{"clients' authority only", func(s *Settings) { s.TLSClientCA = "ca" }, "--tls-client-ca needs"},
		{"admin for others", func(s *Settings) { s.AdminAddress = "192.0.2.1:1" }, "admin pages"},
		{"admin for others, with insecure xDS", func(s *Settings) { s.AdminAddress, s.Insecure = "192.0.2.1:1", true }, "admin pages"},
		{"admin for others, wanted", func(s *Settings) { s.AdminAddress, s.InsecureAdmin = "192.0.2.1:1", true }, ""},
		{"no admin", func(s *Settings) { s.AdminAddress = "" }, ""},
		{"no address", func(s *Settings) { s.XDSAddress = "127.0.0.1" }, "host:port"},
		{"negative", func(s *Settings) { s.DrainTime = -time.Second }, "negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := settings(t)
			tt.change(&s)
			err := s.check()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("error %v", err)
			case tt.want != "" && (!errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
