package hcm

import (
	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
)

// Manager is a connection manager as the last network filter of a chain.
type Manager struct{ Config *Config }

// ServerOf is what a worker's User must offer to connection managers.
type ServerOf interface{ HTTP() *Server }

// Open implements listener.Terminal.
func (m *Manager) Open(w *listener.Worker, c *listener.Connection) listener.Session {
	s, _ := w.User.(ServerOf)
	conn := s.HTTP().NewConn(m.Config, c.Downstream(), &c.Info)
	conn.below = c
	return conn
}
