package xdsclient

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/xebec-proxy/xebec/internal/wire/client"
)

// Metrics is told what a [Source] does. Its methods are called one at a time,
// with the source's lock held: they must be quick and must not call the source.
type Metrics interface {
	// Add adds to a counter.
	Add(s Stat, l Labels, n uint64)
	// Set sets a gauge.
	Set(s Stat, l Labels, v uint64)
	// SetText sets a text.
	SetText(s Stat, l Labels, v string)
	// Observe records a duration.
	Observe(s Stat, l Labels, d time.Duration)
}

// Labels say what a statistic is about.
type Labels struct {
	// Server is the server's name.
	Server string
	// TypeURL is the resource type; empty for what concerns an aggregated stream.
	TypeURL string
	// Source tells sources with equal servers apart; it is not to be called.
	Source *Source
}

// Stat is the name of a statistic, as Envoy has it for a subscription or under
// "control_plane.", or as gRFC A78 has it for gRPC (XC-39, GC-67).
type Stat string

// Statistics of a subscription, by type.
const (
	// StatConfigReload counts responses that changed something.
	StatConfigReload Stat = "config_reload"
	// StatInitFetchTimeout counts resources that did not come in time.
	StatInitFetchTimeout Stat = "init_fetch_timeout"
	// StatUpdateAttempt counts requests that are no answer, and responses.
	StatUpdateAttempt Stat = "update_attempt"
	// StatUpdateSuccess and StatUpdateRejected count accepted and rejected
	// responses, StatUpdateFailure streams that ended without one.
	StatUpdateSuccess  Stat = "update_success"
	StatUpdateRejected Stat = "update_rejected"
	StatUpdateFailure  Stat = "update_failure"
	// StatUpdateTime is the time of the last accepted response, in milliseconds
	// since 1970; StatUpdateDuration how long it took to read and apply.
	StatUpdateTime     Stat = "update_time"
	StatUpdateDuration Stat = "update_duration"
	// StatVersion is a hash of StatVersionText, the last accepted version.
	StatVersion     Stat = "version"
	StatVersionText Stat = "version_text"
	// StatUpdatesValid and StatUpdatesInvalid count resources.
	StatUpdatesValid   Stat = "resource_updates_valid"
	StatUpdatesInvalid Stat = "resource_updates_invalid"
)

// Statistics of a stream.
const (
	// StatConnected is 1 while there is a stream.
	StatConnected Stat = "control_plane.connected_state"
	// StatRateLimited counts how often requests had to wait for the rate limit,
	// StatPending is how many wait (XC-30).
	StatRateLimited Stat = "control_plane.rate_limit_enforced"
	StatPending     Stat = "control_plane.pending_requests"
	// StatServerFailure counts attempts that ended without a response.
	StatServerFailure Stat = "server_failure"
)

type noMetrics struct{}

func (noMetrics) Add(Stat, Labels, uint64)            {}
func (noMetrics) Set(Stat, Labels, uint64)            {}
func (noMetrics) SetText(Stat, Labels, string)        {}
func (noMetrics) Observe(Stat, Labels, time.Duration) {}

func (s *Source) count(st Stat, l *link, typeURL string, n uint64) {
	s.cfg.Metrics.Add(st, Labels{Server: l.srv.Name, TypeURL: typeURL, Source: s}, n)
}

func (s *Source) gauge(st Stat, l *link, v uint64) {
	s.cfg.Metrics.Set(st, Labels{Server: l.srv.Name, TypeURL: l.typeURL, Source: s}, v)
}

// responded counts a response of which the outcome is known.
func (l *link) responded(t *typeState, out *client.Outcome, took time.Duration) {
	m, labels := l.s.cfg.Metrics, Labels{Server: l.srv.Name, TypeURL: t.URL, Source: l.s}
	m.Add(StatUpdateAttempt, labels, 1)
	if out.Err != nil {
		m.Add(StatUpdateRejected, labels, 1)
		l.s.cfg.Logger.Warn("rejected a response", "server", l.srv.Name, "type", t.Kind, "version", out.Version,
			"nonce", out.Nonce, "reason", out.Err)
		return
	}
	m.Add(StatUpdateSuccess, labels, 1)
	if len(out.Events) > 0 {
		m.Add(StatConfigReload, labels, 1)
	}
	m.Set(StatUpdateTime, labels, uint64(max(0, time.Now().UnixMilli())))
	m.Observe(StatUpdateDuration, labels, took)
	m.Set(StatVersion, labels, xxhash.Sum64String(out.Version))
	m.SetText(StatVersionText, labels, out.Version)
}

// failedTypes counts an attempt without a response for each type it was for.
func (l *link) failedTypes() {
	for _, typeURL := range l.ch.Types() {
		if st, ok := l.ch.Status(typeURL); ok && st.Wanted > 0 {
			l.s.count(StatUpdateFailure, l, typeURL, 1)
		}
	}
}

// limited counts what waits for the rate limit.
func (l *link) limited() {
	if l.s.cfg.RateLimit == nil {
		return
	}
	st := l.ch.Stats()
	if n := st.Limited - l.counted; n > 0 {
		l.s.count(StatRateLimited, l, l.typeURL, n)
		l.counted = st.Limited
	}
	l.s.gauge(StatPending, l, uint64(max(0, st.Pending)))
}
