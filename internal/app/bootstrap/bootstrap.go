// Package bootstrap writes the configuration a client starts with, to find its
// management server.
package bootstrap

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// Options say whom the client finds and who it is.
type Options struct {
	// Server is the management server's host:port.
	Server string
	// NodeID and NodeCluster identify the client; both are needed.
	NodeID, NodeCluster string
	TLS                 TLS
	// Insecure allows a connection without TLS to another machine.
	Insecure bool
}

// TLS says how the connection to the server is protected. CA turns it on.
type TLS struct {
	// CA, Cert and Key are PEM files, as the client finds them.
	CA, Cert, Key string
	// ServerName is what the server's certificate must be for; the host of the
	// address if empty.
	ServerName string
}

// Envoy holds what is Envoy's own.
type Envoy struct {
	Options
	// Delta asks for changes instead of the whole state.
	Delta bool
	// Aggregated asks for everything on one stream (ADS); otherwise listeners
	// and clusters have a stream each.
	Aggregated bool
	// LoadReports makes Envoy report its traffic to the server (LRS).
	LoadReports bool
	// AdminPort is where Envoy's admin pages are on loopback; 0 for none.
	AdminPort int
}

// target is a checked address.
type target struct {
	Host string
	Port int
	// Type is how Envoy resolves the host.
	Type string
}

func (o *Options) check() (target, error) {
	host, port, err := net.SplitHostPort(o.Server)
	if err != nil {
		return target{}, fmt.Errorf("the server %q is not of the form host:port: %w", o.Server, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n == 0:
		return target{}, fmt.Errorf("the server %q has no port between 1 and 65535", o.Server)
	case host == "":
		return target{}, fmt.Errorf("the server %q has no host", o.Server)
	case o.NodeID == "" || o.NodeCluster == "":
		return target{}, errors.New("the node needs an id and a cluster: Envoy starts without them, but refuses to connect")
	case (o.TLS.Cert == "") != (o.TLS.Key == ""):
		return target{}, errors.New("the client's certificate and its key belong together: give both")
	case o.TLS.CA == "" && (o.TLS.Cert != "" || o.TLS.ServerName != ""):
		return target{}, errors.New("TLS needs the authority of the server's certificate as well")
	}
	if o.TLS.CA == "" && !o.Insecure && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return target{}, fmt.Errorf("%s is not on this machine, and without TLS anyone on the way can change the configuration: "+
			"give --tls-ca, or --insecure if the network itself is safe", o.Server)
	}
	t := target{Host: host, Port: int(n), Type: "STRICT_DNS"}
	if net.ParseIP(host) != nil {
		t.Type = "STATIC"
	}
	if o.TLS.CA != "" && o.TLS.ServerName == "" {
		o.TLS.ServerName = host
	}
	return t, nil
}

// YAML is the bootstrap for Envoy 1.20 and later.
func (e Envoy) YAML() ([]byte, error) {
	t, err := e.check()
	if err != nil {
		return nil, err
	}
	if e.AdminPort < 0 || e.AdminPort > 65535 {
		return nil, fmt.Errorf("the admin port %d is not between 0 and 65535", e.AdminPort)
	}
	api := "GRPC"
	if e.Delta {
		api = "DELTA_GRPC"
	}
	tmpl, err := template.New("envoy").Funcs(template.FuncMap{"q": quote}).Parse(envoyTemplate)
	if err != nil {
		return nil, fmt.Errorf("the template of Envoy's bootstrap: %w", err)
	}
	var b bytes.Buffer
	if err := tmpl.Execute(&b, map[string]any{"E": e, "Target": t, "API": api, "SANType": sanType(e.TLS.ServerName)}); err != nil {
		return nil, fmt.Errorf("writing Envoy's bootstrap: %w", err)
	}
	return b.Bytes(), nil
}

// sanType is where the server's certificate has its name.
func sanType(serverName string) string {
	if net.ParseIP(serverName) != nil {
		return "IP_ADDRESS"
	}
	return "DNS"
}

// quote writes a string so that YAML reads it back as that string, in a flow
// mapping too: a plain word, else as in JSON.
func quote(s string) (string, error) {
	plain, err := yaml.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("%q cannot be written as YAML: %w", s, err)
	}
	word := strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") == ""
	if word && string(bytes.TrimSpace(plain)) == s {
		return s, nil
	}
	quoted, err := json.Marshal(s)
	return string(quoted), err
}

// GRPC is the bootstrap file of a gRPC client or server, for the environment
// variable GRPC_XDS_BOOTSTRAP (gRFC A27). gRPC speaks the state of the world on
// an aggregated stream, nothing else.
func (o Options) GRPC() ([]byte, error) {
	if _, err := o.check(); err != nil {
		return nil, err
	}
	creds := map[string]any{"type": "insecure"}
	if o.TLS.CA != "" {
		files := map[string]string{"ca_certificate_file": o.TLS.CA}
		if o.TLS.Cert != "" {
			files["certificate_file"], files["private_key_file"] = o.TLS.Cert, o.TLS.Key
		}
		creds = map[string]any{"type": "tls", "config": files}
	}
	b, err := json.MarshalIndent(map[string]any{
		"xds_servers": []any{map[string]any{
			"server_uri": o.Server, "channel_creds": []any{creds}, "server_features": []string{"xds_v3"},
		}},
		// gRPC for Node.js refuses a node without a locality.
		"node":                                   map[string]any{"id": o.NodeID, "cluster": o.NodeCluster, "locality": map[string]any{}},
		"server_listener_resource_name_template": "grpc/server?xds.resource.listening_address=%s",
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing gRPC's bootstrap: %w", err)
	}
	return append(b, '\n'), nil
}
