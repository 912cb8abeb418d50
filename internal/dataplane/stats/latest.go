package stats

// Latest is the part that a connection has in a gauge of what connections have
// received last, such as downstream_cx_rx_bytes_buffered: the size of its last
// read, until it closes. It has three bytes, for which idle connections have room;
// what is read at once is far less than 16 MiB. The zero value is ready. It is
// confined to the worker.
type Latest [3]byte

// Set makes n the connection's part of the gauge; 0 gives it back.
func (l *Latest) Set(s *Shard, g Gauge, n int) {
	n = min(n, 1<<24-1)
	if old := int(l[0]) | int(l[1])<<8 | int(l[2])<<16; n != old {
		s.GaugeAdd(g, int64(n-old))
		*l = Latest{byte(n), byte(n >> 8), byte(n >> 16)}
	}
}
