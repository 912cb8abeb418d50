package routecheck

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

// Report is the outcome of a file of tests.
type Report struct {
	Results []Result `json:"results"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
}

// Result is the outcome of a test; it passed if there are no failures.
type Result struct {
	Test     string    `json:"test"`
	Failures []Failure `json:"failures,omitempty"`
}

// Failure is an expectation that was not met.
type Failure struct {
	Field    string `json:"field"`
	Expected string `json:"expected"`
	Actual   string `json:"actual"`
}

// Check runs a file of tests on a table. An error means that they could not be
// run, not that one failed.
func Check(t *Table, testFile string) (Report, error) {
	all, err := readTests(testFile)
	if err != nil {
		return Report{}, err
	}
	r := Report{Results: []Result{}}
	for i := range all {
		res, err := run(t, &all[i])
		if err != nil {
			return Report{}, fmt.Errorf("%s: %q: %w", testFile, all[i].Name, err)
		}
		if len(res.Failures) == 0 {
			r.Passed++
		} else {
			r.Failed++
		}
		r.Results = append(r.Results, res)
	}
	return r, nil
}

// answer is what a table made of a request.
type answer struct {
	entry    *route.Entry
	forward  bool
	cluster  string
	location string
	status   int
	timeout  time.Duration
	vcluster string
}

func run(t *Table, ts *test) (Result, error) {
	t.runtime = ts.Input.Runtime
	c, err := ts.Input.context()
	if err != nil {
		return Result{}, err
	}
	a := ask(t.Table, c)
	res := Result{Test: ts.Name}
	compare := func(field string, want *string, got string) {
		if want != nil && *want != got {
			res.Failures = append(res.Failures, Failure{field, *want, got})
		}
	}
	v := ts.Validate
	compare("cluster_name", v.Cluster, a.cluster)
	compare("virtual_cluster_name", v.VirtualCluster, a.vcluster)
	compare("virtual_host_name", v.VirtualHost, a.text(func() string { return a.entry.VirtualHost() }))
	compare("path_rewrite", v.PathRewrite, a.text(c.Request.Path))
	compare("host_rewrite", v.HostRewrite, a.text(c.Request.Authority))
	compare("path_redirect", v.PathRedirect, a.location)
	if v.CodeRedirect != nil {
		want := strconv.Itoa(*v.CodeRedirect)
		compare("code_redirect", &want, strconv.Itoa(a.status))
	}
	if v.Timeout != nil {
		d, err := duration(*v.Timeout)
		if err != nil {
			return res, err
		}
		want := d.String()
		compare("timeout", &want, a.timeout.String())
	}
	for _, m := range v.RouteMetadata {
		compare("route_metadata "+m.Namespace+"."+m.Key, &m.Value, a.metadata(m))
	}
	for _, list := range [][]keyValue{v.HeaderFields, v.CustomFields} {
		for _, h := range list {
			compare("header "+h.Key, &h.Value, c.Request.Get(strings.ToLower(h.Key)))
		}
	}
	return res, matchAll(&res, c, v)
}

// metadata is a text of the route's metadata, "" if there is none.
func (a *answer) metadata(m metaWant) string {
	if a.entry == nil {
		return ""
	}
	return a.entry.Metadata().GetFilterMetadata()[m.Namespace].GetFields()[m.Key].GetStringValue()
}

// text is a text that only requests that are forwarded have.
func (a *answer) text(f func() string) string {
	if !a.forward {
		return ""
	}
	return f()
}

// duration reads a time as JSON's mapping of Duration writes it.
func duration(s string) (time.Duration, error) {
	if !strings.HasSuffix(s, "s") {
		return 0, fmt.Errorf("the timeout %q is no number of seconds such as 30s", s)
	}
	return time.ParseDuration(s)
}

func matchAll(res *Result, c *route.Context, v *expect) error {
	for _, side := range []struct {
		field string
		ms    matchers
		in    *header.Map
	}{{"request_header_matches", v.ReqMatches, c.Request}, {"response_header_matches", v.RespMatches, c.Response}} {
		for i, m := range side.ms {
			field := fmt.Sprintf("%s[%d]", side.field, i)
			ok, err := route.HeaderMatch(field, m, route.Env{})
			if err != nil {
				return err
			}
			if !ok(side.in) {
				actual := "missing"
				if got, has := side.in.Lookup(strings.ToLower(m.GetName())); has {
					actual = got
				}
				want, err := protojson.Marshal(m)
				if err != nil {
					return err
				}
				res.Failures = append(res.Failures, Failure{field, string(want), actual})
			}
		}
	}
	return nil
}

// context is a test's request.
func (in *input) context() (*route.Context, error) {
	m, resp := &header.Map{}, &header.Map{}
	scheme := "http"
	if in.SSL {
		scheme = "https"
	}
	method := in.Method
	if method == "" {
		method = "GET"
	}
	m.Add(":authority", in.Authority)
	m.Add(":path", in.Path)
	m.Add(":method", method)
	m.Add(":scheme", scheme)
	m.Add("x-forwarded-proto", scheme)
	if in.Internal {
		m.Add("x-envoy-internal", "true")
	}
	for _, list := range [][]keyValue{in.Headers, in.ReqHeaders} {
		for _, h := range list {
			m.Add(strings.ToLower(h.Key), h.Value)
		}
	}
	for _, h := range in.RespHeaders {
		resp.Add(strings.ToLower(h.Key), h.Value)
	}
	info := &filter.StreamInfo{Protocol: filter.HTTP11, Connection: &filter.ConnectionInfo{
		Remote: loopback(), Local: loopback(),
	}}
	for _, md := range in.Metadata {
		if err := md.set(info); err != nil {
			return nil, err
		}
	}
	return &route.Context{Request: m, Response: resp, Info: info, Random: in.Random, TLS: in.SSL, External: !in.Internal}, nil
}

// set adds to the metadata, as the filter set_metadata does: what is there is
// kept unless it may be overwritten.
func (md *metadata) set(info *filter.StreamInfo) error {
	if info.Metadata[md.Namespace] != nil && !md.Overwrite {
		return nil
	}
	s, err := structpb.NewStruct(md.Value)
	if err != nil {
		return fmt.Errorf("dynamic_metadata %s: %w", md.Namespace, err)
	}
	for k, v := range s.GetFields() {
		info.SetMetadata(md.Namespace, k, v)
	}
	return nil
}

// ask does with a request what the proxy would.
func ask(t *route.Table, c *route.Context) answer {
	e := t.Match(c)
	a := answer{entry: e}
	if e == nil {
		return a
	}
	var target route.Target
	switch e.Kind() {
	case route.Forward:
		a.forward = true
		if v := e.VirtualCluster(c); v != nil {
			a.vcluster = v.Name()
		}
		target = e.PickCluster(c)
		a.cluster, a.timeout = target.Cluster, e.Timeouts().Route
		e.FinalizeRequest(c, target)
	case route.Redirect:
		a.status, a.location = e.Redirect(c)
		c.Response.Set("location", a.location)
	case route.DirectResponse:
		status, body, kind := e.Direct(c)
		a.location = c.Request.Scheme() + "://" + c.Request.Authority() + c.Request.Path() // as Envoy's tool has it
		a.status = status
		if body != "" {
			if kind == "" {
				kind = "text/plain"
			}
			c.Response.Set("content-length", strconv.Itoa(len(body)))
			c.Response.Set("content-type", kind)
		}
	}
	e.FinalizeResponse(c, target)
	return a
}
