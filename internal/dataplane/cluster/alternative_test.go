package cluster

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Proves that names which requests give have counters of their own, as Envoy's,
// and that there can be only so many of them.
func TestAlternativeCodes(t *testing.T) {
	c, reg := build(t, `{"name":"c"}`)
	shard := reg.NewShard(func(f func()) bool { f(); return true })
	codes := &c.Stats.Codes
	if codes.Alternative("") != nil || codes.Alternative(strings.Repeat("x", 129)) != nil {
		t.Error("a name that is none is counted by")
	}
	for i := range 100 {
		a := codes.Alternative(fmt.Sprintf("n%d", i))
		if (a != nil) != (i < 64) {
			t.Fatalf("name %d: %v", i, a)
		}
		if a != nil {
			a.All.Count(shard, 200)
			a.Internal.Count(shard, 200)
			a.Zone("a", "b").Count(shard, 200)
		}
	}
	again := codes.Alternative("n63")
	again.All.Count(shard, 503)
	shard.Close()
	var b bytes.Buffer
	if err := stats.Render(&b, snapshot(t, reg), stats.RenderOptions{UsedOnly: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"cluster.c.n0.upstream_rq_200: 1\n", "cluster.c.n63.upstream_rq_completed: 2\n", "cluster.c.n63.upstream_rq_503: 1\n",
		"cluster.c.n63.internal.upstream_rq_2xx: 1\n", "cluster.c.n63.zone.a.b.upstream_rq_200: 1\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "cluster.c.n64") {
		t.Error("there are more names than there may be")
	}
	if n := testing.AllocsPerRun(100, func() { codes.Alternative("n63").Internal.Completed() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
