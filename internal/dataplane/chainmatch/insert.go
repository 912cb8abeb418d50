package chainmatch

// insert adds every combination of the rule's values to the tree.
func (b *builder) insert(r *rule) {
	dest, ok := b.m.ports[r.destPort]
	if !ok {
		dest = &prefixLevel[serverLevel]{}
		b.m.ports[r.destPort] = dest
	}
	for _, p := range r.dest {
		servers := dest.get(p, func() serverLevel { return serverLevel{} })
		for _, name := range r.servers {
			r.insertServer(servers, name)
		}
	}
}

func (r *rule) insertServer(servers serverLevel, name string) {
	transports, ok := servers[name]
	if !ok {
		transports = transportLevel{}
		servers[name] = transports
	}
	protocols, ok := transports[r.transport]
	if !ok {
		protocols = protocolLevel{}
		transports[r.transport] = protocols
	}
	for _, protocol := range r.protocols {
		direct, ok := protocols[protocol]
		if !ok {
			direct = &prefixLevel[*typeLevel]{}
			protocols[protocol] = direct
		}
		for _, p := range r.direct {
			r.insertSource(direct.get(p, func() *typeLevel { return &typeLevel{} }))
		}
	}
}

func (r *rule) insertSource(types *typeLevel) {
	sources := types[r.sourceType]
	if sources == nil {
		sources = &prefixLevel[sourcePortLevel]{}
		types[r.sourceType] = sources
	}
	for _, p := range r.source {
		ports := sources.get(p, func() sourcePortLevel { return sourcePortLevel{} })
		for _, port := range r.sourcePorts {
			other, taken := ports[port]
			switch {
			case !taken:
				ports[port] = r.chain
			case other == r.chain:
				r.overlapsItself = true
			default:
				r.overlapping, r.overlaps = true, other
			}
		}
	}
}
