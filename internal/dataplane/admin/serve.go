package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Times that bound what a client can hold on to.
const (
	headerTime = 10 * time.Second // for a request's headers
	answerTime = time.Minute      // for the whole exchange
	idleTime   = 5 * time.Minute  // between requests
	endTime    = time.Second      // for exchanges under way when Serve ends
)

// Serve answers on a listener until ctx ends, lets what is under way finish for
// a second, and closes the listener. It returns after all of its goroutines; the
// error is that of accepting, or of ending a CPU profile.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	return errors.Join(s.serve(ctx, ln), s.profiler.stop())
}

func (s *Server) serve(ctx context.Context, ln net.Listener) error {
	h := &http.Server{
		Handler:           http.HandlerFunc(s.counted),
		ReadHeaderTimeout: headerTime, ReadTimeout: answerTime, WriteTimeout: answerTime, IdleTimeout: idleTime,
		ErrorLog:  slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelDebug),
		Protocols: &http.Protocols{},
	}
	h.Protocols.SetHTTP1(true)
	h.Protocols.SetUnencryptedHTTP2(true) // gRPC
	defer s.calls.server.Stop()
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(countedListener{ln, s.counts}) }()
	select {
	case err := <-ended:
		return fmt.Errorf("admin: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err := h.Shutdown(last); err != nil {
		_ = h.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// counted answers a request, counts it and tells the access log.
func (s *Server) counted(w http.ResponseWriter, r *http.Request) {
	s.counts.began(r)
	x := Exchange{Request: r, Start: time.Now()}
	rec := &recorder{ResponseWriter: w}
	s.ServeHTTP(rec, r)
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
	x.Status, x.Header, x.Sent, x.Duration = rec.status, w.Header(), rec.sent, time.Since(x.Start)
	x.Local, _ = r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	s.counts.ended(&x)
	if s.o.Access != nil {
		s.o.Access(&x)
	}
}
