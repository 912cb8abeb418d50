package main

import (
	"embed"
	"fmt"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"text/template"
)

//go:embed peers
var templates embed.FS

// addresses are where a proxy listens, one listener for each purpose.
type addresses struct{ H1, H2, GRPC, ECDSA, RSA netip.AddrPort }

// upstreams are where the load program answers: two hosts by HTTP/1.1 and two
// by HTTP/2.
type upstreams struct{ A1, B1, A2, B2 netip.AddrPort }

// variant is a configuration beyond the plain one.
type variant struct {
	// Log writes a JSON access log of 21 fields to a file.
	Log bool
	// Hosts and Routes are as many virtual hosts, or routes, that come before
	// the one that matches.
	Hosts, Routes int
	// Bytes forwards connections by tcp_proxy, without HTTP.
	Bytes bool
}

// settings is what the templates are filled with.
type settings struct {
	Dir, User string
	Listen    addresses
	Upstream  upstreams
	Variant   variant
	// Admin and Profile are where the admin endpoints are and the file that
	// profiles go to; none if Profile is empty.
	Admin   netip.AddrPort
	Profile string
}

type listenerSettings struct {
	Name, Cluster, Certificate, Dir string
	Address                         netip.AddrPort
	Variant                         variant
}

type clusterSettings struct {
	Name      string
	HTTP2     bool
	Endpoints []netip.AddrPort
}

// Listeners are those of the bootstrap.
func (s settings) Listeners() []listenerSettings {
	l := func(name, cluster, certificate string, a netip.AddrPort) listenerSettings {
		return listenerSettings{name, cluster, certificate, s.Dir, a, s.Variant}
	}
	if s.Variant != (variant{}) {
		return []listenerSettings{l("h1", "h1", "", s.Listen.H1)}
	}
	return []listenerSettings{
		l("h1", "h1", "", s.Listen.H1),
		l("h2", "h1", "", s.Listen.H2),
		l("grpc", "grpc", "", s.Listen.GRPC),
		l("ecdsa", "h1", "ecdsa", s.Listen.ECDSA),
		l("rsa", "h1", "rsa", s.Listen.RSA),
	}
}

// Clusters are those of the bootstrap.
func (s settings) Clusters() []clusterSettings {
	return []clusterSettings{
		{Name: "h1", Endpoints: []netip.AddrPort{s.Upstream.A1, s.Upstream.B1}},
		{Name: "grpc", HTTP2: true, Endpoints: []netip.AddrPort{s.Upstream.A2, s.Upstream.B2}},
	}
}

// render fills a template of peers/ and says where it is.
func (s settings) render(name, as string) (path string, err error) {
	t, err := template.ParseFS(templates, "peers/"+name)
	if err != nil {
		return "", fmt.Errorf("peers/%s: %w", name, err)
	}
	path = filepath.Join(s.Dir, as+filepath.Ext(name))
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := t.Execute(f, s); err != nil {
		return "", fmt.Errorf("peers/%s: %w", name, err)
	}
	return path, f.Close()
}

// userName is whom nginx's worker runs as: who runs this.
func userName() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("who runs this: %w", err)
	}
	return u.Username, nil
}
