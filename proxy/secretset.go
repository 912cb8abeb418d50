package proxy

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/dataplane/tlsio"
)

// clientTLS is a cluster's TLS context, which changes when its secrets do; nil
// until they have come.
type clientTLS struct {
	atomic.Pointer[tlsio.ClientContext]
}

// secretState is a secret of one source, and the TLS contexts that need it.
type secretState struct {
	name   string
	source *corev3.ConfigSource
	users  []*secretUser
	last   *tlsv3.Secret // in force, or nil
	files  *secretFiles  // that it is in, or nil
	over   bool          // nobody waits for the first any more, nor who comes later
	origin
	rejected *failure
	stats    sdsStats
}

// sdsStats are "sds.<name>." (ST-07).
type sdsStats struct {
	subscription
	KeyRotationFailed stats.Counter `stat:"key_rotation_failed"`
}

// finder finds a discovered secret, nil if it has not come.
type finder func(c *tlsv3.SdsSecretConfig) *tlsv3.Secret

// secretUser is a TLS context with discovered secrets.
type secretUser struct {
	needs []*tlsv3.SdsSecretConfig
	// try builds the context of the secrets that find has; install puts it in
	// force. It is nil, without an error, when some have not come.
	try     func(find finder) (install func(), err error)
	cluster string // that waits for it, "" for a listener's
	states  []*secretState
	wait
}

// secureServer builds the TLS of a filter chain.
func (p *Proxy) secureServer(d *chainDeps, m *tlsv3.DownstreamTlsContext) (*listener.ServerTLS, error) {
	needs := tlsio.DiscoveredByServer(m)
	if len(needs) == 0 || p.o.Discovery == nil {
		ctx, err := tlsio.NewServer(m, p.tls)
		return listener.NewServerTLS(ctx), err //nolint:wrapcheck // it has the paths
	}
	t := listener.NewServerTLS(nil)
	u := &secretUser{needs: needs, try: func(find finder) (func(), error) {
		o := p.tls
		o.Discovered = find
		ctx, err := tlsio.NewServer(m, o)
		return func() { t.Replace(ctx) }, err //nolint:wrapcheck // it has the paths
	}}
	d.secrets = append(d.secrets, u)
	return t, errors.Join(p.checkSecrets(needs), u.check())
}

// secureClient builds a TLS context of a cluster.
func (p *Proxy) secureClient(e *clusterEntry, m *tlsv3.UpstreamTlsContext) (*clientTLS, error) {
	t := &clientTLS{}
	needs := tlsio.DiscoveredByClient(m)
	if len(needs) == 0 || p.o.Discovery == nil {
		ctx, err := tlsio.NewClient(m, p.tls)
		t.Store(ctx)
		return t, err //nolint:wrapcheck // it has the paths
	}
	u := &secretUser{needs: needs, cluster: e.Name(), try: func(find finder) (func(), error) {
		o := p.tls
		o.Discovered = find
		ctx, err := tlsio.NewClient(m, o)
		return func() { t.Store(ctx) }, err //nolint:wrapcheck // it has the paths
	}}
	e.secrets = append(e.secrets, u)
	return t, errors.Join(p.checkSecrets(needs), u.check())
}

// checkSecrets refuses secrets whose config source cannot be used.
func (p *Proxy) checkSecrets(list []*tlsv3.SdsSecretConfig) error {
	var errs []error
	for _, c := range list {
		errs = append(errs, p.checkSource(fmt.Sprintf("secret '%s': sds_config", c.GetName()), c.GetSdsConfig(), SecretType))
	}
	return errors.Join(errs...)
}

// check tells what is wrong whatever the secrets are.
func (u *secretUser) check() error {
	_, err := u.try(func(*tlsv3.SdsSecretConfig) *tlsv3.Secret { return nil })
	if tlsio.OnlySecretsMissing(err) {
		return nil
	}
	return err
}

// secretOf is the state of a secret that a context needs, or nil.
func (r *Resources) secretOf(c *tlsv3.SdsSecretConfig) *secretState {
	return oneOfSource(r.secrets[c.GetName()], c.GetSdsConfig())
}

// find is what there is, with one secret in place of what is in force.
func (r *Resources) find(instead *secretState, secret *tlsv3.Secret) finder {
	return func(c *tlsv3.SdsSecretConfig) *tlsv3.Secret {
		s := r.secretOf(c)
		switch s {
		case nil:
			return nil
		case instead:
			return secret
		}
		return s.last
	}
}

func (r *Resources) attachSecrets(u *secretUser) {
	for _, c := range u.needs {
		s := r.secretOf(c)
		if s == nil {
			s = &secretState{name: c.GetName(), source: c.GetSdsConfig()}
			scope := r.p.stat.Scope("sds." + s.name)
			scope.Fill(&s.stats)
			s.stats.text = scope.Text("version_text")
			s.stats.asked(r.p.stat.Main(), s.source)
			r.secrets[s.name] = append(r.secrets[s.name], s)
			r.tell.add(true, SecretType, s.name, s.source)
		} else {
			r.tell.hurry(SecretType, s.name, s.source)
		}
		if !slices.Contains(u.states, s) {
			s.users = append(s.users, u)
			u.states = append(u.states, s)
		}
	}
	install, err := u.try(r.find(nil, nil))
	switch {
	case err == nil:
		install()
		u.end()
	case !tlsio.OnlySecretsMissing(err):
		r.p.component("connection").Warn("the secrets in force do not suit a new TLS context, which waits for others", "error", err)
	case !slices.ContainsFunc(u.states, (*secretState).awaited):
		u.end()
	}
}

// awaited reports whether those who come wait for the secret.
func (s *secretState) awaited() bool { return s.last == nil && !s.over }

// startSecrets begins to count the time that is waited.
func (r *Resources) startSecrets(u *secretUser) {
	r.startWait(&u.wait, u.needs[0].GetSdsConfig(), func() {
		r.p.component("connection").Warn("not all secrets came within initial_fetch_timeout", "secret", u.needs[0].GetName())
		for _, s := range u.states {
			if s.last == nil {
				s.over = true
				r.p.stat.Main().Inc(s.stats.InitFetchTimeout)
			}
		}
		r.settleUser(u)
	})
}

func (r *Resources) detachSecrets(u *secretUser) {
	u.halt()
	for _, s := range u.states {
		s.users = slices.DeleteFunc(s.users, func(x *secretUser) bool { return x == u })
		if len(s.users) > 0 {
			continue
		}
		r.tell.add(false, SecretType, s.name, s.source)
		forget(r.secrets, s.name, s)
		if s.files != nil {
			r.watchFiles()
		}
	}
	u.states = nil
}

// settleUser looks whether who waited for a context has become warm.
func (r *Resources) settleUser(u *secretUser) {
	if u.cluster != "" {
		r.settleNamed(u.cluster)
		return
	}
	r.settleListeners()
}

// SetSecret gives a secret to the TLS contexts that refer to its name and source
// (TS-14); a nil source is any. Connections keep what they began with. One that
// no context refers to is ignored.
func (r *Resources) SetSecret(source *corev3.ConfigSource, secret *tlsv3.Secret, version string) error {
	return setOfSource(r, func() []*secretState { return r.secrets[secret.GetName()] }, source, func(s *secretState) error { return r.supply(s, secret, version) })
}

func (r *Resources) supply(s *secretState, secret *tlsv3.Secret, version string) error {
	m, begun := r.p.stat.Main(), time.Now()
	from, err := newOrigin(secret, version)
	var whole *tlsv3.Secret
	var files *secretFiles
	if err == nil {
		whole, files, err = r.p.readSecret(secret)
	}
	if err == nil && s.last != nil && s.same(&from) && files.same(s.files) {
		s.version, s.rejected = version, nil
		s.stats.accepted(m, begun, version)
		return nil
	}
	if err == nil {
		whole, err = checkAs(r, whole)
	}
	var installs []func()
	if err == nil {
		installs, err = r.trySecret(s, whole)
	}
	if err == nil || s.last == nil {
		s.files = files // what is not there yet is waited for
		r.watchFiles()
	}
	if err != nil {
		s.stats.rejected(m)
		s.rejected = &failure{secret, version, time.Now(), err}
		if s.last == nil && files == nil { // files may come yet
			r.noSecret(s) // as in Envoy, where what is wrong does not keep others waiting
		}
		return fmt.Errorf("secret %q: %w", secret.GetName(), err)
	}
	s.last, s.origin, s.rejected = whole, from, nil
	s.stats.accepted(m, begun, version)
	r.installSecret(s, installs)
	return nil
}

// trySecret builds the contexts of a secret with another content: what puts them in
// force is in the order of the users, nil for those that wait for other secrets.
func (r *Resources) trySecret(s *secretState, secret *tlsv3.Secret) ([]func(), error) {
	installs := make([]func(), len(s.users))
	for i, u := range s.users {
		install, err := u.try(r.find(s, secret))
		switch {
		case err == nil:
			installs[i] = install
		case !tlsio.OnlySecretsMissing(err):
			return nil, err
		}
	}
	return installs, nil
}

// installSecret puts what trySecret has built in force.
func (r *Resources) installSecret(s *secretState, installs []func()) {
	for i, u := range slices.Clone(s.users) {
		if installs[i] != nil {
			installs[i]()
			u.end()
			r.settleUser(u)
		}
	}
}

// noSecret ends the waiting for a secret that does not exist or is wrong.
func (r *Resources) noSecret(s *secretState) {
	s.over = true
	for _, u := range slices.Clone(s.users) {
		u.end()
		r.settleUser(u)
	}
}
