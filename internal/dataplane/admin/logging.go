package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// levels are Envoy's log levels from the lowest on, with what slog has for them.
func levels() []struct {
	name  string
	level slog.Level
} {
	return []struct {
		name  string
		level slog.Level
	}{
		{"trace", slog.LevelDebug - 4},
		{"debug", slog.LevelDebug},
		{"info", slog.LevelInfo},
		{"warning", slog.LevelWarn},
		{"error", slog.LevelError},
		{"critical", slog.LevelError + 4},
		{"off", slog.LevelError + 64},
	}
}

func levelNames() []string {
	var names []string
	for _, l := range levels() {
		names = append(names, l.name)
	}
	return names
}

// levelNamed finds a level; warn is another name of warning.
func levelNamed(name string) (slog.Level, bool) {
	if name == "warn" {
		name = "warning"
	}
	for _, l := range levels() {
		if l.name == name {
			return l.level, true
		}
	}
	return 0, false
}

// levelName is the name of the highest level that is not above l.
func levelName(l slog.Level) string {
	name := "trace"
	for _, x := range levels() {
		if l >= x.level {
			name = x.name
		}
	}
	return name
}

const loggingUsage = "usage: /logging?<name>=<level> (one component)\n" +
	"usage: /logging?paths=name1:level1,name2:level2,... (several)\n" +
	"usage: /logging?level=<level> (all)\n"

// logging is /logging (AD-11).
func (s *Server) logging(w http.ResponseWriter, r *http.Request) {
	if s.o.Levels == nil {
		reply(w, http.StatusNotImplemented, "/logging: the levels of this program's log cannot be changed from here\n")
		return
	}
	status, text := http.StatusOK, ""
	if err := s.setLevels(r); err != nil {
		status = http.StatusBadRequest
		text = fmt.Sprintf("error: %v\n\n%slevels: %s\n", err, loggingUsage, strings.Join(levelNames(), " "))
	}
	var b strings.Builder
	b.WriteString(text + "active loggers:\n")
	for _, c := range s.o.Components {
		fmt.Fprintf(&b, "  %s: %s\n", c, levelName(s.o.Levels.Level(c)))
	}
	b.WriteString("\n")
	reply(w, status, b.String())
}

// errLogging are the texts of Envoy.
type errLogging string

func (e errLogging) Error() string { return string(e) }

const (
	errParams errLogging = "invalid number of parameters"
	errName   errLogging = "unknown logger name"
	errLevel  errLogging = "unknown logger level"
)

// setLevels does what the parameters say: everything, or nothing and an error.
func (s *Server) setLevels(r *http.Request) error {
	q := r.URL.Query()
	if len(q) > 1 {
		return errParams
	}
	for name, values := range q {
		value := values[len(values)-1]
		switch {
		case value == "":
			return nil
		case name == "level":
			l, ok := levelNamed(value)
			if !ok {
				return errLevel
			}
			s.o.Levels.SetAll(l)
			return nil
		case name == "paths":
			return s.setEach(strings.Split(value, ","))
		case name == "group":
			return errLogging("group: known but not built; use paths")
		}
		return s.setEach([]string{name + ":" + value})
	}
	return nil
}

// setEach sets levels given as name:level.
func (s *Server) setEach(items []string) error {
	type change struct {
		name  string
		level slog.Level
	}
	var changes []change
	for _, item := range items {
		name, text, _ := strings.Cut(item, ":")
		level, ok := levelNamed(text)
		if !ok {
			return errLevel
		}
		if !slices.Contains(s.o.Components, name) {
			return errName
		}
		changes = append(changes, change{name, level})
	}
	for _, c := range changes {
		s.o.Levels.Set(c.name, c.level)
	}
	return nil
}
