package proxyrun

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Levels beyond those of slog, as Envoy has them.
const (
	LevelTrace    = slog.LevelDebug - 4
	LevelCritical = slog.LevelError + 4
	LevelOff      = slog.LevelError + 64
)

// ParseLevel reads one of Envoy's level names: trace, debug, info, warning (or
// warn), error, critical, off.
func ParseLevel(name string) (slog.Level, error) {
	switch name {
	case "trace":
		return LevelTrace, nil
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warning", "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	case "critical":
		return LevelCritical, nil
	case "off":
		return LevelOff, nil
	}
	return 0, fmt.Errorf("%q is no log level: choose trace, debug, info, warning, error, critical or off", name)
}

// LevelName is Envoy's name of a level.
func LevelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warning"
	case l < LevelCritical:
		return "error"
	case l < LevelOff:
		return "critical"
	}
	return "off"
}

// Levels are the levels from which on the components log. It is safe for
// concurrent use.
type Levels struct {
	mu         sync.RWMutex
	all        slog.Level
	components map[string]slog.Level
}

// NewLevels reads the level of all components and, as "a:debug,b:trace", those
// of single ones (BS-48).
func NewLevels(all, components string) (*Levels, error) {
	level, err := ParseLevel(all)
	if err != nil {
		return nil, err
	}
	l := &Levels{all: level, components: map[string]slog.Level{}}
	for item := range strings.SplitSeq(components, ",") {
		if item == "" {
			continue
		}
		name, text, ok := strings.Cut(item, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is no component:level, such as upstream:debug", item)
		}
		if level, err = ParseLevel(text); err != nil {
			return nil, err
		}
		l.components[name] = level
	}
	return l, nil
}

// Level is the level of a component, that of all if it has none of its own.
func (l *Levels) Level(component string) slog.Level {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if level, ok := l.components[component]; ok {
		return level
	}
	return l.all
}

// SetAll gives every component a level.
func (l *Levels) SetAll(level slog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = level
	clear(l.components)
}

// Set gives one component a level.
func (l *Levels) Set(component string, level slog.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.components[component] = level
}

// Components lists the components that have a level of their own.
func (l *Levels) Components() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Sorted(maps.Keys(l.components))
}
