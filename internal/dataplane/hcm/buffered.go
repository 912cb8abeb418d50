package hcm

import "github.com/xebec-proxy/xebec/internal/dataplane/stats"

// BufferedGauge implements worker.Buffering.
func (c *Conn) BufferedGauge() stats.Gauge { return c.cfg.Stats.CxTxBuffered }
