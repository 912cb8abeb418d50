package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/support"
	"github.com/xebec-proxy/xebec/internal/listdiff"
	"github.com/xebec-proxy/xebec/validate"
)

// checkedRoutes is a route configuration that came by discovery and was found good.
// With it the check of the next one costs what is new in that.
type checkedRoutes struct {
	// config is what is in force of it: without what is optional and not built.
	config *routev3.RouteConfiguration
	// came are its virtual hosts as they came. Those of config are at the same places,
	// and the same messages unless something was left out.
	came []*routev3.VirtualHost
	// counted is what is counted for virtual hosts of config whenever they come, for
	// those with something to be counted.
	counted map[*routev3.VirtualHost]counted
	// runtime is what deprecated fields were allowed by.
	runtime *layeredruntime.Snapshot
}

// counted are uses of deprecated fields, and messages with unknown fields.
type counted struct{ deprecated, unknown int }

// stayed tells of each virtual host of a configuration that came at which place of
// the one before it was, or -1. Those that are the same message are not looked into.
func (c *checkedRoutes) stayed(hosts []*routev3.VirtualHost) []int32 {
	if c == nil {
		c = &checkedRoutes{}
	}
	from := listdiff.Kept(c.came, hosts, func(a, b *routev3.VirtualHost) bool { return a == b }, sameMessage, sameMessage)
	kept := make([]bool, len(c.came))
	var now []int // places of those that are not found yet
	for i, was := range from {
		if was < 0 {
			now = append(now, i)
		} else {
			kept[was] = true
		}
	}
	if len(now) == 0 {
		return from
	}
	var before []int
	for i := range kept {
		if !kept[i] {
			before = append(before, i)
		}
	}
	e := &encoder{}
	equal := listdiff.Kept(before, now, func(a, b int) bool { return e.equal(c.came[a], hosts[b]) },
		func(i int) string { return string(encoded(nil, c.came[i])) }, func(i int) string { return string(encoded(nil, hosts[i])) })
	for i, was := range equal {
		if was >= 0 {
			from[now[i]] = int32(before[was])
		}
	}
	return from
}

func sameMessage(vh *routev3.VirtualHost) *routev3.VirtualHost { return vh }

// encoder compares virtual hosts in memory that is used again.
type encoder struct{ a, b []byte }

func (e *encoder) equal(a, b *routev3.VirtualHost) bool {
	if a.GetName() != b.GetName() {
		return false
	}
	e.a, e.b = encoded(e.a[:0], a), encoded(e.b[:0], b)
	return bytes.Equal(e.a, e.b)
}

// encoded appends a message as it is compared. That it cannot be encoded is found out
// by who checks it.
func encoded(to []byte, m proto.Message) []byte {
	to, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(to, m)
	return to
}

// all reports whether all have stayed at their places.
func (c *checkedRoutes) all(from []int32) bool {
	for i, was := range from {
		if int(was) != i {
			return false
		}
	}
	return len(from) == len(c.came)
}

// again is c when the same has come once more, in other messages perhaps.
func (c *checkedRoutes) again(rc *routev3.RouteConfiguration) *checkedRoutes {
	next := *c
	next.came = rc.GetVirtualHosts()
	return &next
}

// checkRoutes is check for a route configuration of which from says what has stayed
// since before.
func (r *Resources) checkRoutes(before *checkedRoutes, rc *routev3.RouteConfiguration, from []int32) (*checkedRoutes, error) {
	k := &routesCheck{r: r, rc: rc, before: before, from: from, runtime: r.p.rt.Load()}
	if before == nil {
		return k.check(true)
	}
	checked, err := k.check(false)
	if err != nil {
		return k.check(true) // finds everything that is wrong, at its place
	}
	return checked, nil
}

// routesCheck is one check of a route configuration.
type routesCheck struct {
	r       *Resources
	rc      *routev3.RouteConfiguration
	before  *checkedRoutes
	from    []int32
	runtime *layeredruntime.Snapshot
	places  []int // of the virtual hosts that are looked at
}

// check looks at everything, or else at what has not stayed or counts on the runtime
// that was. Errors of the latter have neither been counted nor told.
func (k *routesCheck) check(everything bool) (*checkedRoutes, error) {
	part, ok := proto.Clone(k.part(everything)).(*routev3.RouteConfiguration)
	if !ok {
		return nil, fmt.Errorf("%T cannot be copied", k.rc)
	}
	if _, err := proto.Marshal(part); err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	report, err := k.r.inspect(part)
	if err != nil {
		return nil, err
	}
	if !everything && k.r.refuses(&report) {
		return nil, fmt.Errorf("%v", report.Findings)
	}
	k.relocate(&report)
	if err := k.r.conclude(&report); err != nil {
		return nil, err
	}
	out := &checkedRoutes{config: part, came: k.rc.GetVirtualHosts(), runtime: k.runtime}
	k.take(out, &report)
	return out, nil
}

// part is what is looked at.
func (k *routesCheck) part(everything bool) *routev3.RouteConfiguration {
	part := route.WithoutHosts(k.rc)
	k.places = nil
	for i, vh := range k.rc.GetVirtualHosts() {
		if !everything && k.from[i] >= 0 {
			was := k.before.config.GetVirtualHosts()[k.from[i]]
			if k.runtime == k.before.runtime || k.before.counted[was].deprecated == 0 {
				continue
			}
		}
		k.places = append(k.places, i)
		part.VirtualHosts = append(part.VirtualHosts, vh)
	}
	return part
}

// refuses reports whether what was found is a reason to refuse something.
func (r *Resources) refuses(report *support.Report) bool {
	return r.p.o.RejectUnknownFields && len(report.Unknown) > 0 ||
		slices.ContainsFunc(report.Findings, func(f validate.Finding) bool { return f.Severity == validate.Error })
}

// relocate makes paths in the part those of the whole.
func (k *routesCheck) relocate(report *support.Report) {
	if len(k.places) == len(k.rc.GetVirtualHosts()) {
		return
	}
	whole := func(path string) string {
		if i, rest, ok := hostOfPath(path); ok {
			return fmt.Sprintf("virtual_hosts[%d]%s", k.places[i], rest)
		}
		return path
	}
	for i := range report.Findings {
		report.Findings[i].Path = whole(report.Findings[i].Path)
	}
	for i := range report.Unknown {
		report.Unknown[i].Path = whole(report.Unknown[i].Path)
	}
	for _, list := range [][]string{report.Skipped, report.DeprecatedAt} {
		for i := range list {
			list[i] = whole(list[i])
		}
	}
}

// hostOfPath is which virtual host a path is of, and what follows.
func hostOfPath(path string) (i int, rest string, ok bool) {
	if path, ok = strings.CutPrefix(path, "virtual_hosts["); !ok {
		return 0, "", false
	}
	number, rest, _ := strings.Cut(path, "]")
	i, err := strconv.Atoi(number)
	return i, rest, err == nil
}

// take puts what was looked at and what has stayed together, and counts for the
// latter what was counted when it was looked at.
func (k *routesCheck) take(out *checkedRoutes, report *support.Report) {
	looked := out.config.GetVirtualHosts()
	hosts := slices.Clone(k.rc.GetVirtualHosts())
	if k.before != nil {
		for i, was := range k.from {
			if was >= 0 {
				hosts[i] = k.before.config.GetVirtualHosts()[was]
			}
		}
	}
	for _, path := range report.Skipped {
		if i, _, ok := hostOfPath(path); ok && (k.before == nil || k.from[i] < 0) {
			at, _ := slices.BinarySearch(k.places, i)
			hosts[i] = looked[at] // something was left out of it
		}
	}
	out.config.VirtualHosts = hosts
	k.count(out, report)
}

func (k *routesCheck) count(out *checkedRoutes, report *support.Report) {
	found := map[int]counted{} // by place, of what was looked at
	add := func(path string, c counted) {
		if i, _, ok := hostOfPath(path); ok {
			found[i] = counted{found[i].deprecated + c.deprecated, found[i].unknown + c.unknown}
		}
	}
	for _, path := range report.DeprecatedAt {
		add(path, counted{deprecated: 1})
	}
	for i := range report.Unknown {
		add(report.Unknown[i].Path, counted{unknown: 1})
	}
	if k.before != nil && len(k.before.counted) > 0 {
		k.countStayed(found)
	}
	out.counted = make(map[*routev3.VirtualHost]counted, len(found))
	for i, c := range found {
		out.counted[out.config.GetVirtualHosts()[i]] = c
	}
}

// countStayed counts for what was not looked at.
func (k *routesCheck) countStayed(found map[int]counted) {
	looked := make(map[int]bool, len(k.places))
	for _, i := range k.places {
		looked[i] = true
	}
	m, server := k.r.p.stat.Main(), &k.r.p.server
	for i, was := range k.from {
		if was < 0 || looked[i] {
			continue
		}
		if c, ok := k.before.counted[k.before.config.GetVirtualHosts()[was]]; ok {
			m.Add(server.Deprecated, uint64(c.deprecated))
			m.Add(server.DynamicUnknown, uint64(c.unknown))
			found[i] = c
		}
	}
}
