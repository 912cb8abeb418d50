package app

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/xebec-proxy/xebec/xdsserver"
)

// Defaults of Settings.
const (
	DefaultXDSAddress   = "127.0.0.1:18000"
	DefaultAdminAddress = "127.0.0.1:18001"
	DefaultDrainTime    = 5 * time.Second
)

// Settings say how to run a management server.
type Settings struct {
	// Dir is the directory of resource files.
	Dir string
	// Lenient serves resources that break a rule of their message; Strict
	// refuses resources that refer to something that is not there.
	Lenient, Strict bool

	// ExportDir, if set, gets a folder for each group with what the group is served, in
	// files for clients that read files (package source/export). It is apart from Dir.
	ExportDir string

	// XDSAddress and AdminAddress are where to listen; port 0 takes a free one.
	// An empty AdminAddress means no admin pages.
	XDSAddress, AdminAddress string
	// AddressFile, if set, gets the addresses that are really listened on.
	AddressFile string
	// Insecure allows plaintext xDS, InsecureAdmin admin pages, on addresses
	// that other machines can reach.
	Insecure, InsecureAdmin bool
	// TLSCert and TLSKey are PEM files; TLSClientCA too, and with it every
	// client needs a certificate that one of its authorities has signed. They
	// are read again when they change.
	TLSCert, TLSKey, TLSClientCA string

	// Identifier names the server in its responses.
	Identifier string
	// NodeRequired refuses clients that do not say who they are.
	NodeRequired bool
	// OrderAcrossStreams keeps one order among the streams of a node that opens one
	// for each type.
	OrderAcrossStreams bool
	// RESTHold is how long a poll over REST that brings no change is held.
	RESTHold time.Duration
	// RESTEmptyMeansAll gives polls without names everything of any type.
	RESTEmptyMeansAll bool
	Limits            xdsserver.Limits
	Keepalive         xdsserver.Keepalive
	// LoadInterval is how often clients that report load do so; 0 means
	// loadreport.DefaultInterval.
	LoadInterval time.Duration
	// Channelz adds gRPC's own diagnosis service.
	Channelz bool
	// DrainTime is how long clients get to leave at the end.
	DrainTime time.Duration

	// Version is what the admin pages and metrics say this program is.
	Version string
	// Log gets everything there is to say. Never nil.
	Log *slog.Logger
}

// ErrSettings is wrapped by errors of Settings that contradict themselves.
var ErrSettings = errors.New("wrong settings")

func (s *Settings) check() error {
	switch {
	case s.Dir == "":
		return fmt.Errorf("%w: no directory is given: use --dir to name the one with the resource files", ErrSettings)
	case s.Lenient && s.Strict:
		return fmt.Errorf("%w: --lenient and --strict exclude one another: choose one", ErrSettings)
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return fmt.Errorf("%w: --tls-cert and --tls-key belong together: give both", ErrSettings)
	case s.TLSClientCA != "" && s.TLSCert == "":
		return fmt.Errorf("%w: --tls-client-ca needs --tls-cert and --tls-key", ErrSettings)
	case s.DrainTime < 0:
		return fmt.Errorf("%w: --drain-time is negative", ErrSettings)
	case s.RESTHold < 0 || s.RESTHold > xdsserver.MaxRESTHold:
		return fmt.Errorf("%w: --rest-hold must be between 0 and %s", ErrSettings, xdsserver.MaxRESTHold)
	}
	if s.ExportDir != "" {
		if err := apart(s.Dir, s.ExportDir); err != nil {
			return fmt.Errorf("%w: %w", ErrSettings, err)
		}
	}
	if s.TLSCert == "" && !s.Insecure {
		if err := loopback(s.XDSAddress); err != nil {
			return fmt.Errorf("%w: %w, and xDS without TLS hands the configuration to anyone who asks: "+
				"give --tls-cert and --tls-key, or --insecure if the network itself is safe", ErrSettings, err)
		}
	}
	if s.AdminAddress != "" && !s.InsecureAdmin {
		if err := loopback(s.AdminAddress); err != nil {
			return fmt.Errorf("%w: %w, and the admin pages have neither TLS nor passwords: "+
				"use a loopback address, or --insecure-admin if the network itself is safe", ErrSettings, err)
		}
	}
	return nil
}

// loopback reports an address that other machines can reach.
func loopback(address string) error {
	a, err := net.ResolveTCPAddr("tcp", address)
	switch {
	case err != nil:
		return fmt.Errorf("the address %q is not of the form host:port: %w", address, err)
	case a.IP == nil:
		return fmt.Errorf("%s is every address of this machine", address)
	case !a.IP.IsLoopback():
		return fmt.Errorf("%s is not a loopback address", address)
	}
	return nil
}
