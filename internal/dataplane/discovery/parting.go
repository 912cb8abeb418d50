package discovery

import (
	"sync"
	"time"
)

// partingTime is how long clusters stay at most that a server no longer has when
// its stream begins anew. Xebec's own waits as long for an answer.
const partingTime = 5 * time.Second

// parting are clusters that the server of a stream with everything no longer has
// when that stream begins anew. Clusters come before routes, so those in force
// may still lead there, and a server that has just started cannot know: such
// clusters are removed after routes have come. Later on a stream the server
// itself removes them last. Safe for concurrent use.
type parting struct {
	remove func(name string)

	mu    sync.Mutex
	fresh bool // the stream has not brought clusters yet
	names map[string]struct{}
	timer *time.Timer
}

// begin says that there is a new stream, and clustersCame that it has brought
// its first clusters.
func (p *parting) begin()        { p.setFresh(true) }
func (p *parting) clustersCame() { p.setFresh(false) }

func (p *parting) setFresh(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = yes
}

// gone removes a cluster, now or later.
func (p *parting) gone(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fresh {
		p.remove(name)
		return
	}
	if p.names == nil {
		p.names = map[string]struct{}{}
		p.timer = time.AfterFunc(partingTime, p.routesCame)
	}
	p.names[name] = struct{}{}
}

// back sets a cluster that the server has again. One that is refused goes all the same.
func (p *parting) back(name string, set func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := set()
	if err == nil {
		delete(p.names, name)
	}
	return err
}

// routesCame removes what has waited.
func (p *parting) routesCame() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.names {
		p.remove(name)
	}
	p.drop()
}

// stop forgets what has waited.
func (p *parting) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

func (p *parting) drop() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.names, p.timer = nil, nil
}
