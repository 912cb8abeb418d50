package healthcheck

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// httpConfig is an http_health_check.
type httpConfig struct {
	method, path, host  string
	send                []byte
	receive             [][]byte
	look                uint64 // how much of a body is looked through
	add                 []headerChange
	remove              []string
	expected, retriable []statusRange
	http2               bool
	service             *stringmatch.Matcher // of the name that the host tells
}

// statusRange is a range of status codes, without its end.
type statusRange struct{ from, to int64 }

func in(list []statusRange, status int) bool {
	for _, r := range list {
		if s := int64(status); s >= r.from && s < r.to {
			return true
		}
	}
	return false
}

const defaultLook = 1024

func readHTTP(h *corev3.HealthCheck_HttpHealthCheck, clusterName string) (*httpConfig, error) {
	c := &httpConfig{method: "GET", path: h.GetPath(), host: h.GetHost(), look: defaultLook, http2: h.GetCodecClientType() == typev3.CodecClientType_HTTP2}
	if m := h.GetMethod(); m != corev3.RequestMethod_METHOD_UNSPECIFIED {
		c.method = m.String()
	}
	if c.host == "" {
		c.host = clusterName
	}
	if h.GetCodecClientType() == typev3.CodecClientType_HTTP3 {
		return nil, errors.New("codec_client_type: HTTP3 is known but not built; use HTTP1 or HTTP2")
	}
	if n := h.GetResponseBufferSize(); n != nil {
		c.look = n.GetValue()
	}
	if c.look == 0 {
		c.look = math.MaxUint64
	}
	var err error
	errs := make([]error, 0, 8)
	c.expected, err = ranges("expected", h.GetExpectedStatuses())
	errs = append(errs, err)
	c.retriable, err = ranges("retriable", h.GetRetriableStatuses())
	errs = append(errs, err)
	if len(c.expected) == 0 {
		c.expected = []statusRange{{200, 201}}
	}
	c.add, err = readHeaders("request_headers_to_add", h.GetRequestHeadersToAdd())
	errs = append(errs, err)
	c.remove, err = readRemoved("request_headers_to_remove", h.GetRequestHeadersToRemove())
	errs = append(errs, err, c.readPayloads(h))
	if m := h.GetServiceNameMatcher(); m != nil {
		match, err := stringmatch.Compile("service_name_matcher", m)
		errs = append(errs, err)
		c.service = &match
	}
	return c, errors.Join(errs...)
}

func (c *httpConfig) readPayloads(h *corev3.HealthCheck_HttpHealthCheck) error {
	var err error
	if h.GetSend() != nil {
		switch c.method {
		case "GET", "HEAD", "DELETE", "TRACE": // Envoy's text
			return fmt.Errorf("send: HTTP health check cannot specify a request payload with method '%s'. Only methods that support a request body (POST, PUT, PATCH, OPTIONS) can be used with payload.", c.method) //nolint:staticcheck,revive // Envoy's text
		}
		if c.send, err = payload("send", h.GetSend()); err != nil {
			return err
		}
	}
	if c.receive, err = payloads("receive", h.GetReceive()); err != nil {
		return err
	}
	total := uint64(0)
	for _, b := range c.receive {
		total += uint64(len(b))
	}
	if total > c.look { // Envoy's text
		return fmt.Errorf("receive: The expected response length '%d' is over than http health response buffer size '%d'", total, c.look)
	}
	return nil
}

// ranges reads ranges of status codes. The texts are Envoy's.
func ranges(of string, list []*typev3.Int64Range) ([]statusRange, error) {
	var out []statusRange
	for i, r := range list {
		path := fmt.Sprintf("%s_statuses[%d]: Invalid http %s status range: expecting", of, i, of)
		switch {
		case r.GetStart() >= r.GetEnd():
			return nil, fmt.Errorf("%s start < end, but found start=%d and end=%d", path, r.GetStart(), r.GetEnd())
		case r.GetStart() < 100:
			return nil, fmt.Errorf("%s start >= 100, but found start=%d", path, r.GetStart())
		case r.GetEnd() > 600:
			return nil, fmt.Errorf("%s end <= 600, but found end=%d", path, r.GetEnd())
		}
		out = append(out, statusRange{r.GetStart(), r.GetEnd()})
	}
	return out, nil
}

// request is what is sent to a host. hostname is the host's own, if it has one.
func (c *httpConfig) request(hostname, scheme string) *request {
	r := &request{method: c.method, body: c.send}
	if hostname == "" {
		hostname = c.host
	}
	h := &r.head
	h.AddID(header.Method, c.method)
	h.AddID(header.Scheme, scheme)
	h.AddID(header.Authority, hostname)
	h.AddID(header.Path, c.path)
	h.AddID(header.UserAgent, userAgent)
	change(h, c.remove, c.add)
	if len(c.send) > 0 {
		h.SetID(header.ContentLength, strconv.Itoa(len(c.send)))
	}
	return r
}

// judge is what an answer means (HK-03, HK-10). verify asks for the name of the
// service to be compared.
func (c *httpConfig) judge(a *answer, verify func() bool) Result {
	status := a.head.Status()
	failed := Result{Verdict: Failed, Status: status, Excluded: a.head.HasID(header.XEnvoyImmediateHealthCheckFail)}
	if !a.found.done() {
		return failed
	}
	if !in(c.expected, status) {
		if in(c.retriable, status) {
			failed.Verdict = Retriable
		}
		return failed
	}
	if c.service != nil && verify() && !c.service.Match(a.head.Get("x-envoy-upstream-healthchecked-cluster")) {
		return Result{Verdict: Failed, Status: status}
	}
	if a.head.HasID(header.XEnvoyDegraded) {
		return Result{Verdict: Degraded}
	}
	return Result{Verdict: Passed}
}
