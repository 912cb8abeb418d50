package proxyrun

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
	"github.com/xebec-proxy/xebec/internal/dataplane/support"
	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/validate"
)

// Codes of findings about the bootstrap as a whole.
const (
	codeDuplicate      = "duplicate-name"
	codeUnknownCluster = "unknown-cluster"
	codeUnknownSecret  = "unknown-secret"
	codeDataSource     = "data-source"
	codeRuntime        = "layered-runtime"
	codeStats          = "stats"
	codeDisable        = "disable-extensions"
)

// check looks for what is wrong with the merged bootstrap.
func (l *loading) check() {
	b := l.loaded.Bootstrap
	var err error
	if l.loaded.Runtime, err = layeredruntime.New(b.GetLayeredRuntime()); err != nil {
		l.fault(codeRuntime, "layered_runtime", err.Error(), "")
	}
	rules := validate.Message(b, "", l.loaded.Positions)
	report := l.loaded.Catalog.Check(b, l.loaded.Positions, l.loaded.Runtime.Bool)
	l.loaded.DeprecatedUses += report.Deprecated
	unread := slices.Clone(report.Skipped)
	for _, f := range report.Findings {
		l.suggest(&f)
		l.add(f)
		if f.Code == support.CodeNotBuilt || f.Code == support.CodeNoEffect {
			unread = append(unread, f.Path)
		}
	}
	for _, f := range rules {
		// What cannot be read is reported above, with more to say; what is not
		// read has no rules.
		if f.Code != "unknown-type" && !aboutOthers(f.Code) && !within(f.Path, unread) {
			l.add(f)
		}
	}
	l.loaded.Positions.skipped = report.Skipped
	for _, name := range l.loaded.Catalog.Undisabled() {
		l.doubt(codeDisable, "", fmt.Sprintf("--disable-extensions: this version has no extension %q", name), "")
	}
	l.names()
	l.stats()
	l.references()
}

// aboutOthers reports warnings of what clients other than a proxy mind.
func aboutOthers(code string) bool {
	switch code {
	case "priority-gap", "duplicate-locality", "duplicate-endpoint", "xdstp-without-service-name":
		return true
	}
	return false
}

// within reports a path at or below one of others.
func within(path string, others []string) bool {
	for _, o := range others {
		if rest, ok := strings.CutPrefix(path, o); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// suggest adds the type that was probably meant by an unknown one.
func (l *loading) suggest(f *validate.Finding) {
	if f.Code != support.CodeUnregistered {
		return
	}
	_, name, _ := strings.Cut(f.Message, "with type URL: '")
	name = strings.TrimSuffix(name, "'")
	if name == "" || l.loaded.Catalog.Classify(name) != support.Unknown {
		return
	}
	if near, ok := (&configload.Loader{}).Nearest(name); ok {
		f.Hint = fmt.Sprintf("did you mean %s?", near)
	}
}

// names checks that names are unique: secrets first, then clusters, then
// listeners (BS-23).
func (l *loading) names() {
	static := l.loaded.Bootstrap.GetStaticResources()
	seen := map[string]bool{}
	for i, s := range static.GetSecrets() {
		kind := secretKind(s)
		if key := kind + "/" + s.GetName(); seen[key] {
			l.fault(codeDuplicate, fmt.Sprintf("static_resources.secrets[%d].name", i),
				fmt.Sprintf("Duplicate static %s secret name %s", kind, s.GetName()), "rename one of them")
		} else {
			seen[key] = true
		}
	}
	clusters := map[string]bool{}
	for i, c := range static.GetClusters() {
		if clusters[c.GetName()] {
			l.fault(codeDuplicate, fmt.Sprintf("static_resources.clusters[%d].name", i),
				fmt.Sprintf("cluster manager: duplicate cluster '%s'", c.GetName()), "rename one of them")
		}
		clusters[c.GetName()] = true
	}
	listeners := map[string]bool{}
	for i, s := range static.GetListeners() {
		if listeners[s.GetName()] && s.GetName() != "" {
			l.fault(codeDuplicate, fmt.Sprintf("static_resources.listeners[%d].name", i),
				fmt.Sprintf("two listeners are called '%s'", s.GetName()), "rename one of them")
		}
		listeners[s.GetName()] = true
	}
}

// secretKind is Envoy's name for what a secret holds.
func secretKind(s *tlsv3.Secret) string {
	switch s.GetType().(type) {
	case *tlsv3.Secret_TlsCertificate:
		return "TlsCertificate"
	case *tlsv3.Secret_ValidationContext:
		return "CertificateValidationContext"
	case *tlsv3.Secret_SessionTicketKeys:
		return "TlsSessionTicketKeys"
	case *tlsv3.Secret_GenericSecret:
		return "GenericSecret"
	}
	return "secret"
}

// stats checks when statistics are flushed (BS-44).
func (l *loading) stats() {
	b := l.loaded.Bootstrap
	if b.GetStatsFlushInterval() != nil && b.GetStatsFlushOnAdmin() {
		l.fault(codeStats, "stats_flush_on_admin", "Only one of stats_flush_interval or stats_flush_on_admin should be set!", "remove one of them")
	}
}

// references checks what names, files and variables lead to.
func (l *loading) references() {
	r := &referring{loading: l, clusters: map[string]bool{}, secrets: map[string]bool{}}
	static := l.loaded.Bootstrap.GetStaticResources()
	for _, c := range static.GetClusters() {
		r.clusters[c.GetName()] = true
	}
	for _, s := range static.GetSecrets() {
		r.secrets[s.GetName()] = true
	}
	r.walker = model.Walker{Message: r.message}
	r.walker.Walk(l.loaded.Bootstrap)
}

// referring is a walk over the messages that refer to something.
type referring struct {
	*loading
	walker            model.Walker
	clusters, secrets map[string]bool
}

func (r *referring) at(path string) string {
	if p := r.walker.Path(); p != "" {
		return p + "." + path
	}
	return path
}

func (r *referring) message(m protoreflect.Message) {
	switch v := m.Interface().(type) {
	case *routev3.RouteConfiguration:
		if v.GetValidateClusters() == nil || v.GetValidateClusters().GetValue() {
			r.routes(v)
		}
	case *hcmv3.HttpConnectionManager:
		r.filterNames(v)
	case *metricsv3.StatsdSink:
		r.statsd(v)
	case *tlsv3.SdsSecretConfig:
		if v.GetSdsConfig() == nil && v.GetName() != "" && !r.secrets[v.GetName()] {
			r.fault(codeUnknownSecret, r.at("name"), "Unknown static secret: "+v.GetName(), "add it to static_resources.secrets, or correct the name")
		}
	case *corev3.DataSource:
		r.source(v)
	}
}

// routes checks the clusters that static routes name (BS-23, RT-14).
func (r *referring) routes(v *routev3.RouteConfiguration) {
	for i, h := range v.GetVirtualHosts() {
		for j, rt := range h.GetRoutes() {
			path := fmt.Sprintf("virtual_hosts[%d].routes[%d].route", i, j)
			if name := rt.GetRoute().GetCluster(); name != "" && !r.clusters[name] {
				r.fault(codeUnknownCluster, r.at(path+".cluster"), fmt.Sprintf("route: unknown cluster '%s'", name),
					"add the cluster to static_resources, or correct the name")
			}
			for k, w := range rt.GetRoute().GetWeightedClusters().GetClusters() {
				if name := w.GetName(); name != "" && !r.clusters[name] {
					r.fault(codeUnknownCluster, r.at(fmt.Sprintf("%s.weighted_clusters.clusters[%d].name", path, k)),
						fmt.Sprintf("route: unknown weighted cluster '%s'", name), "add the cluster to static_resources, or correct the name")
				}
			}
		}
	}
}

// statsd checks the cluster of a sink, which Envoy gives nothing without a node.
func (r *referring) statsd(v *metricsv3.StatsdSink) {
	name := v.GetTcpClusterName()
	if name == "" {
		return
	}
	if !r.clusters[name] {
		r.fault(codeUnknownCluster, r.at("tcp_cluster_name"), fmt.Sprintf("tcp statsd: unknown cluster '%s'", name),
			"add the cluster to static_resources, or correct the name")
	}
	if n := r.loaded.Bootstrap.GetNode(); n.GetId() == "" || n.GetCluster() == "" {
		r.doubt(codeStats, r.at("tcp_cluster_name"), "tcp statsd: Envoy requires node 'id' and 'cluster' for this sink",
			"set them in node, or by --service-node and --service-cluster")
	}
}

// source checks that a file or variable is there (BS-33).
func (r *referring) source(v *corev3.DataSource) {
	switch s := v.GetSpecifier().(type) {
	case *corev3.DataSource_Filename:
		if err := readable(s.Filename); err != nil {
			r.fault(codeDataSource, r.at("filename"), "Invalid path: "+s.Filename, err.Error())
		}
	case *corev3.DataSource_EnvironmentVariable:
		if _, ok := r.lookup(s.EnvironmentVariable); !ok && s.EnvironmentVariable != "" {
			r.fault(codeDataSource, r.at("environment_variable"), "Environment variable doesn't exist: "+s.EnvironmentVariable, "set it, or name another")
		}
	}
}

func (l *loading) lookup(name string) (string, bool) {
	if l.env.LookupEnv == nil {
		return "", false
	}
	return l.env.LookupEnv(name)
}

// readable says why a file cannot be read, in few words.
func readable(name string) error {
	if name == "" {
		return nil // a declared rule says so
	}
	info, err := os.Stat(name)
	if err == nil && info.IsDir() {
		return errors.New("it is a directory")
	}
	if err == nil {
		var f *os.File
		if f, err = os.Open(name); err == nil {
			return f.Close()
		}
	}
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
