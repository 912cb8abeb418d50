package pool

import "github.com/xebec-proxy/xebec/internal/dataplane/stats"

// The handlers of connections to hosts tell their gauge (worker.Buffering).

// BufferedGauge implements worker.Buffering.
func (cl *client) BufferedGauge() stats.Gauge {
	return cl.pool.c.Cfg.Stats.UpstreamCxTxBytesBuffered
}

// BufferedGauge implements worker.Buffering.
func (h *h1Client) BufferedGauge() stats.Gauge { return h.cl.BufferedGauge() }

// BufferedGauge implements worker.Buffering.
func (h *h2Socket) BufferedGauge() stats.Gauge { return h.cl.BufferedGauge() }

// BufferedGauge implements worker.Buffering.
func (t *TCP) BufferedGauge() stats.Gauge { return t.c.Cfg.Stats.UpstreamCxTxBytesBuffered }
