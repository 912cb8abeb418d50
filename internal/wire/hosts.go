package wire

import (
	"maps"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// hosts is how the names of a VHDS subscription are resolved that are no
// resource's own: by the domains of the virtual hosts of a route configuration.
// Such a name is an alias, of the virtual host that it leads to, for this stream
// alone (XN-23).
type hosts struct {
	tables map[string]*hostTable
	// recheck are names asked for since the last response was assembled: the
	// snapshot may have moved on meanwhile, without telling of what concerns them.
	recheck map[string]struct{}
	vain    vain
	// restated is how many names the first request had: a client that begins anew
	// names all that it has ever asked for, most of them in vain.
	restated int
	// begun says that the first request named nothing, ends are the route
	// configurations of which the client is to hear that nothing follows.
	begun bool
	ends  []string
}

// hostTable is the part of one route configuration.
type hostTable struct {
	of      map[string]string   // every name subscribed to, with what it leads to; "" for nothing
	aliases map[string][]string // the other way round, sorted
	byHost  map[string][]string // by host in lower case, without port
}

// table is what is asked for of the route configuration of a virtual host, nil
// if nothing is.
func (h *hosts) table(name string) *hostTable {
	if h == nil {
		return nil
	}
	table, _, _ := xds.SplitHost(name)
	return h.tables[table]
}

// hostAliases lists the names that lead to a virtual host by its domains.
func (x *sub) hostAliases(name string) []string {
	if t := x.hosts.table(name); t != nil {
		return t.aliases[name]
	}
	return nil
}

// byDomain is the virtual host that a name leads to by domain alone.
func (x *sub) byDomain(name string) *xds.Resource {
	set := x.set()
	if set == nil || set.Resolve(name) != nil {
		return nil
	}
	return x.stream.view.Host(name)
}

// addHost notes a name that was just subscribed to and asked for.
func (x *sub) addHost(name string) {
	table, host, ok := xds.SplitHost(name)
	if x.hosts == nil || !ok {
		return
	}
	t := x.hosts.tables[table]
	if t == nil {
		t = &hostTable{of: map[string]string{}, aliases: map[string][]string{}, byHost: map[string][]string{}}
		x.hosts.tables[table] = t
	}
	x.hosts.vain.drop(name) // it is to be answered
	if _, had := t.of[name]; !had {
		t.of[name] = ""
		k := hostKey(host)
		t.byHost[k] = append(t.byHost[k], name)
	}
	if r := x.byDomain(name); r != nil {
		held := x.heldHost(r.Name())
		t.lead(name, r.Name())
		if o := x.due.find(name); x.parts(o) {
			o.asked = false
			x.owe(r.Name(), held, x.stream.seq).force = true
		}
	}
	x.hosts.recheck[name] = struct{}{}
}

func hostKey(host string) string { return strings.ToLower(xds.WithoutPort(host)) }

// dropHost forgets a name that was unsubscribed from.
func (x *sub) dropHost(name string) {
	t := x.hosts.table(name)
	if t == nil {
		return
	}
	if o := x.due.find(name); o != nil && o.asked && !o.leaving && !x.wildcard && x.current(name) == nil {
		x.due.drop(o) // nobody waits for the answer
	}
	table, host, _ := xds.SplitHost(name)
	t.lead(name, "")
	delete(t.of, name)
	delete(x.hosts.recheck, name)
	x.hosts.vain.drop(name)
	k := hostKey(host)
	if i := slices.Index(t.byHost[k], name); i >= 0 {
		t.byHost[k] = slices.Delete(t.byHost[k], i, i+1)
	}
	if len(t.byHost[k]) == 0 {
		delete(t.byHost, k)
	}
	if len(t.of) == 0 {
		delete(x.hosts.tables, table)
	}
}

func without(l []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(l), func(n string) bool { return n == name })
}

// lead makes a name lead to a virtual host, or to none. Lists that were handed
// out stay as they are.
func (t *hostTable) lead(name, to string) {
	was := t.of[name]
	if was == to {
		return
	}
	t.of[name] = to
	if was != "" {
		if t.aliases[was] = without(t.aliases[was], name); len(t.aliases[was]) == 0 {
			delete(t.aliases, was)
		}
	}
	if to != "" {
		at, _ := slices.BinarySearch(t.aliases[to], name)
		t.aliases[to] = slices.Insert(slices.Clip(t.aliases[to]), at, name)
	}
}

// rehost follows changes: names lead to what matches them now. The cost is that
// of the names whose match may have changed; a wildcard may match any of its
// route configuration.
func (s *Stream) rehost(changes [][]snapshot.Change) {
	for _, x := range s.subs {
		if x.hosts != nil && len(x.hosts.tables) > 0 {
			x.rehost(changes)
		}
	}
}

func (x *sub) rehost(changes [][]snapshot.Change) {
	for _, list := range changes {
		for i := range list {
			switch c := &list[i]; c.Type {
			case xds.VirtualHostType:
				x.hostChanged(c)
			case xds.RouteType:
				x.tableChanged(c)
			}
		}
	}
}

func (x *sub) hostChanged(c *snapshot.Change) {
	t := x.hosts.table(c.Name)
	if t == nil {
		return
	}
	var names []string
	if c.Old == nil || c.New == nil {
		names = append(names, c.Name)
	}
	was, is := domainsOf(c.Old), domainsOf(c.New)
	for _, d := range slices.Concat(was, is) {
		if contains(was, d) && contains(is, d) {
			continue
		}
		if strings.HasPrefix(d, "*") || strings.HasSuffix(d, "*") {
			names = slices.Collect(maps.Keys(t.of))
			break
		}
		names = append(names, t.byHost[hostKey(d)]...)
	}
	slices.Sort(names)
	for _, n := range slices.Compact(names) {
		if x.wants(n) {
			x.follow(t, n)
		}
	}
}

func domainsOf(r *xds.Resource) []string {
	if r == nil {
		return nil
	}
	return r.Hosts().Domains
}

func contains(sorted []string, s string) bool {
	_, ok := slices.BinarySearch(sorted, s)
	return ok
}

// tableChanged deals with a route configuration. On a stream of virtual hosts
// alone it is not known when the client gets it.
func (x *sub) tableChanged(c *snapshot.Change) {
	t := x.hosts.tables[c.Name]
	if t == nil {
		return
	}
	if ignoresPort(c.Old) != ignoresPort(c.New) {
		for _, n := range slices.Sorted(maps.Keys(t.of)) {
			x.follow(t, n)
		}
	}
	if !x.stream.aggregated() && c.New != nil {
		x.sendHostsAgain(c.New, x.stream.seq)
	}
}

func ignoresPort(r *xds.Resource) bool { return r != nil && r.Hosts() != nil && r.Hosts().IgnorePort }

// follow makes a name lead to what matches it now. What it led to is given up
// if no other name leads there.
func (x *sub) follow(t *hostTable, name string) {
	was, is := t.of[name], ""
	if r := x.byDomain(name); r != nil {
		is = r.Name()
	}
	if was == is {
		return
	}
	heldWas, heldIs := x.heldHost(was), x.heldHost(is)
	t.lead(name, is)
	if was != "" {
		x.giveUpHost(was, heldWas)
	}
	if o := x.due.find(name); x.parts(o) {
		o.asked = o.asked && is == ""
	} else if o != nil && o.asked {
		o.held = heldIs // it is still to be answered, and with what it leads to then
		return
	}
	if is == "" {
		x.hosts.vain.add(name)
	} else {
		o := x.owe(is, heldIs, x.stream.seq)
		o.force = true
		o.touch(x.stream.seq)
	}
}

// parts reports whether a due entry is about a virtual host of the very name that
// was asked for, which is gone: the name may lead to another one by domain.
func (x *sub) parts(o *owed) bool {
	return o != nil && o.mayHold() != nil && o.mayHold().Name() == o.name && x.current(o.name) == nil
}

// heldHost is what the client was last sent of a virtual host; nil for "".
func (x *sub) heldHost(name string) *xds.Resource {
	for _, alias := range x.hostAliases(name) {
		if o := x.due.find(alias); o != nil && o.asked {
			return o.held
		}
	}
	return x.heldNow(name)
}

// giveUpHost deals with a virtual host that a name leads to no more: it is
// removed, or sent again with the names that still lead there.
func (x *sub) giveUpHost(name string, held *xds.Resource) {
	stays := x.wildcard || x.wants(name) || len(x.hostAliases(name)) > 0
	o := x.due.find(name)
	switch {
	case o == nil && x.rejected[name] != nil && stays:
	case o == nil && held == nil && x.rejected[name] == nil:
	case o != nil && o.mayHold() == nil && stays:
	case o != nil && o.mayHold() == nil:
		x.due.drop(o)
	default:
		o = x.owe(name, held, x.stream.seq)
		o.force = stays && x.current(name) != nil
		o.asked = o.asked && stays
		o.leaving = true
		o.touch(x.stream.seq)
	}
}

// recheckHosts follows the names asked for since the last response, with the
// snapshot that this one is made from.
func (x *sub) recheckHosts() {
	if x.hosts == nil || len(x.hosts.recheck) == 0 {
		return
	}
	for _, n := range slices.Sorted(maps.Keys(x.hosts.recheck)) {
		x.follow(x.hosts.table(n), n)
	}
	clear(x.hosts.recheck)
}

// sendHostsAgain makes the virtual hosts of a route configuration due that the
// client has, since it may have dropped them with what came before (XN-25).
func (x *sub) sendHostsAgain(table *xds.Resource, seq uint64) {
	if x.hosts == nil || table.Hosts() == nil {
		return
	}
	t := x.hosts.tables[table.Name()]
	if t == nil {
		t = &hostTable{}
	}
	names := slices.Collect(maps.Keys(t.aliases))
	for n, to := range t.of {
		if to == "" {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	sent := false
	for _, n := range slices.Compact(names) {
		if x.current(n) != nil {
			x.resend(n, seq)
			sent = true
		}
	}
	if !sent && x.stream.cfg.EndHosts && x.stream.aggregated() {
		x.hosts.ends, x.mustAnswer = append(x.hosts.ends, table.Name()), true
	}
}

// endTables tells a client that waits for the first virtual hosts of a route
// configuration, though it has asked for none, that there is nothing to wait for:
// with the removal of one that cannot be.
func (a *assembly) endTables() {
	x := a.x
	h := x.hosts
	if h == nil || !x.stream.cfg.EndHosts {
		return
	}
	if h.begun {
		h.begun = false
		h.ends = append(h.ends, x.tablesOnDemand()...)
	}
	slices.Sort(h.ends)
	for _, table := range slices.Compact(h.ends) {
		a.resp.Removed = append(a.resp.Removed, table+"/")
		a.size += len(table) + envelopeSize
	}
	h.ends = nil
}

// tablesOnDemand lists the route configurations with virtual hosts on demand that
// the client may have: of an aggregated stream it is known which.
func (x *sub) tablesOnDemand() []string {
	all := x.stream.view.OnDemand()
	if !x.stream.aggregated() {
		return all
	}
	var l []string
	if tables := x.kin(xds.RouteType); tables != nil {
		for n := range tables.names {
			if _, ok := slices.BinarySearch(all, n); ok {
				l = append(l, n)
			}
		}
	}
	return l
}

// noHost answers for a virtual host that there is not, or that the client may
// not have: without a body, which ends what waits for it at the client (XN-24).
func (a *assembly) noHost(o *owed) bool {
	if a.x.hosts == nil || !o.asked || o.former || o.mayHold() != nil {
		return false
	}
	a.note(o, nil)
	a.resp.Missing = append(a.resp.Missing, o.name)
	a.size += 2*len(o.name) + envelopeSize
	a.x.hosts.vain.add(o.name)
	return true
}

// nameHost adds the names that a virtual host was asked for by.
func (a *assembly) nameHost(o *owed, r *xds.Resource) {
	names := a.x.hostAliases(r.Name())
	if len(names) == 0 {
		return
	}
	if a.resp.Aliases == nil {
		a.resp.Aliases = map[string][]string{}
	}
	a.resp.Aliases[r.Name()] = names
	for _, n := range names {
		a.size += len(n) + envelopeSize
		if other := a.x.due.find(n); n != o.name && other != nil && a.x.current(n) == nil && !a.x.parts(other) {
			a.x.due.drop(other)
		}
	}
}
