//go:build interop

package differential

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// observation is everything that was seen of one exchange, as named texts.
type observation struct {
	values map[string]string
	ports  map[int]string // to what listens there or came from there
}

func newObservation() *observation {
	return &observation{values: map[string]string{}, ports: map[int]string{}}
}

func (o *observation) set(name, value string) { o.values[name] = value }

func (o *observation) port(port int, name string) { o.ports[port] = name }

// body records content: as it is if it is short and text.
func (o *observation) body(name string, body []byte) {
	if len(body) == 0 {
		return
	}
	if len(body) <= 300 && utf8.Valid(body) {
		o.set(name, strconv.Quote(string(body)))
		return
	}
	o.set(name, fmt.Sprintf("%d bytes, sha256 %.8x, from %q", len(body), sha256.Sum256(body), body[:20]))
}

// message records a message. The order of headers with different names is not
// compared.
func (o *observation) message(name string, m *message) {
	if m.start != "" {
		o.set(name+".start", m.start)
	}
	if m.problem != "" {
		o.set(name+".problem", m.problem)
	}
	if m.framing != "" && m.framing != "headers" {
		o.set(name+".framing", m.framing)
	}
	o.fields(name+".header.", m.headers)
	o.fields(name+".trailer.", m.trailers)
	o.body(name+".body", m.body)
}

func (o *observation) fields(prefix string, list []field) {
	values := map[string][]string{}
	for _, f := range list {
		value := maskHeader(f.name, f.value)
		if port, err := strconv.Atoi(value); err == nil && o.ports[port] != "" {
			value = "<" + o.ports[port] + ">"
		}
		values[f.name] = append(values[f.name], value)
	}
	for name, all := range values {
		value := strings.Join(all, " | ")
		if len(value) > 300 {
			value = fmt.Sprintf("%d bytes, sha256 %.8x", len(value), sha256.Sum256([]byte(value)))
		}
		o.set(prefix+name, value)
	}
}

func (o *observation) sighting(n int, s *sighting) {
	name := "upstream." + strconv.Itoa(n)
	o.set(name+".server", s.server+" by "+s.proto)
	if s.end != "" {
		o.set(name+".end", s.end)
	}
	o.message(name, &s.message)
}

// Patterns of what differs by chance. They are compiled once; nothing changes
// them.
var (
	uuid       = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	address    = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)
	textPrefix = regexp.MustCompile(`^\[[^\]]*\] (".*?" \d+ \S+ \d+ \d+) (\d+|-) (\d+|-) `)
	digits     = regexp.MustCompile(`\d+`)
	madeCookie = regexp.MustCompile(`="[0-9a-f]{16}"`) // of a hash_policy, by the ports of a connection
	number     = regexp.MustCompile(`^\d+$`)
)

func maskHeader(name, value string) string {
	switch strings.ToLower(name) {
	case "date":
		if strings.HasSuffix(value, "GMT") && !strings.Contains(value, "1994") {
			return "<date>"
		}
	case "x-envoy-upstream-service-time":
		return number.ReplaceAllString(value, "<ms>")
	case "set-cookie":
		return madeCookie.ReplaceAllString(value, `="<hash>"`)
	case "x-envoy-expected-rq-timeout-ms":
		return maskTimeout(value)
	}
	return value
}

// maskTimeout allows for the time that a retry takes off a timeout.
func maskTimeout(value string) string {
	n, err := strconv.Atoi(value)
	if err != nil {
		return value
	}
	const step = 1000
	return fmt.Sprintf("up to %d", (n+step-1)/step*step)
}

// maskLog hides what differs by chance in a field of the access log: a number
// of milliseconds or a time stays recognisable as one, as does one of bytes that
// depends on how headers are compressed.
func maskLog(key string, value any, toHTTP2 bool) string {
	s, isText := value.(string)
	switch {
	case key == "upstream_local" && isText: // any port, even one that something else has too
		return address.ReplaceAllString(s, "127.0.0.1 and a port")
	case key == "wire_upstream_sent" && toHTTP2 && value != 0.0:
		return "<bytes>"
	case key == "connection_ids_attempted" && isText:
		return digits.ReplaceAllString(s, "<id>")
	case strings.HasPrefix(key, "duration") && isText, strings.HasPrefix(key, "time") && isText:
		return "<time>"
	case strings.HasPrefix(key, "duration") && value != nil:
		return "<number>"
	}
	out, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if isText {
		out = []byte(s)
	}
	return string(out)
}

// logs records access-log lines, in an order that does not depend on which
// stream ended first.
func (o *observation) logs(jsonLines, textLines []string) {
	records := make([]string, 0, len(jsonLines))
	for _, line := range jsonLines {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			records = append(records, "broken\x01"+line)
			continue
		}
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(record)) {
			b.WriteString(key + "\x01" + maskLog(key, record[key], record["upstream_protocol"] == "HTTP/2") + "\x02")
		}
		records = append(records, o.neutral(b.String()))
	}
	slices.Sort(records)
	for i, record := range records {
		for pair := range strings.SplitSeq(strings.TrimSuffix(record, "\x02"), "\x02") {
			key, value, _ := strings.Cut(pair, "\x01")
			o.set("log."+strconv.Itoa(i+1)+"."+key, value)
		}
	}
	texts := make([]string, 0, len(textLines))
	for _, line := range textLines {
		m := textPrefix.FindStringSubmatch(line)
		if m != nil {
			line = "[<time>] " + m[1] + " <ms> " + number.ReplaceAllString(m[3], "<ms>") + " " + line[len(m[0]):]
		}
		texts = append(texts, o.neutral(line))
	}
	slices.Sort(texts)
	for i, line := range texts {
		o.set("text."+strconv.Itoa(i+1), line)
	}
}

// notCompared are statistics that count bytes, time or threads, and those of
// what a proxy does on its own. docs/differences.md names them.
var notCompared = regexp.MustCompile(`_bytes_(total|buffered)$|_flow_control_|\.worker_\d+\.|^(http|listener)\.admin\.|^http\.async-client\.|\.(lb_recalculate_zone_structures|membership_\w+|max_host_weight|version|assignment_\w+|update_\w+|warming_state)$|\.total_match_count$`)

func (o *observation) stats(before, after map[string]int) {
	for name, value := range after {
		if d := value - before[name]; d != 0 && !notCompared.MatchString(name) {
			o.set("stats."+name, strconv.Itoa(d))
		}
	}
}

// neutral replaces what differs between two runs inside a text.
func (o *observation) neutral(s string) string {
	s = uuid.ReplaceAllString(s, "<uuid>")
	return address.ReplaceAllStringFunc(s, func(a string) string {
		port, _ := strconv.Atoi(a[strings.LastIndexByte(a, ':')+1:])
		if name, ok := o.ports[port]; ok {
			return "127.0.0.1:<" + name + ">"
		}
		return "127.0.0.1:<port>"
	})
}

func (o *observation) neutralise() {
	for name, value := range o.values {
		o.values[name] = o.neutral(value)
	}
}

func (o *observation) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.values)) {
		fmt.Fprintf(&b, "  %s: %s\n", name, o.values[name])
	}
	return b.String()
}
