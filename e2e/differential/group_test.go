//go:build interop

package differential

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// group is one file of testdata: a configuration and the exchanges on it.
type group struct {
	name      string
	Bootstrap map[string]any          `yaml:"bootstrap"`
	HCM       map[string]any          `yaml:"hcm"`
	Routes    map[string]any          `yaml:"route_config"`
	Listeners map[string]listenerSpec `yaml:"listeners"`
	Clusters  map[string]clusterSpec  `yaml:"clusters"`
	Shared    yaml.Node               `yaml:"shared"` // holds anchors
	Templates []yaml.Node             `yaml:"cases"`
	cases     []exchange
}

// listenerSpec is one listener. With Filters or Chains it is not HTTP.
type listenerSpec struct {
	HCM      map[string]any   `yaml:"hcm"`
	Routes   map[string]any   `yaml:"route_config"`
	Filters  []map[string]any `yaml:"filters"`
	Chains   []map[string]any `yaml:"filter_chains"`
	Listener map[string]any   `yaml:"listener"`
	Chain    map[string]any   `yaml:"filter_chain"`
	TLS      map[string]any   `yaml:"tls"`
}

// clusterSpec is a cluster and the upstream servers behind it.
type clusterSpec struct {
	// Kind is h1, h2, h1s, h2s (over TLS), tcp, refused (a port that nobody
	// listens on) or none (no endpoint).
	Kind      string         `yaml:"kind"`
	Endpoints int            `yaml:"endpoints"`
	Hosts     []hostSpec     `yaml:"hosts"` // instead of a number of equal endpoints
	Config    map[string]any `yaml:"config"`
	// Proxy is the configuration of the PROXY headers that connections begin with, and
	// that servers read; nil without.
	Proxy map[string]any `yaml:"proxy_header"`
}

// hostSpec is one endpoint, alone in its locality.
type hostSpec struct {
	Priority int            `yaml:"priority"`
	Endpoint map[string]any `yaml:"lb_endpoint"` // fields of LbEndpoint
}

// exchange is one case.
type exchange struct {
	Name     string            `yaml:"name"`
	For      map[string][]any  `yaml:"for"`
	Listener string            `yaml:"listener"`
	Client   string            `yaml:"client"` // h1, h2 or tcp
	TLS      *tlsClient        `yaml:"tls"`
	Request  *request          `yaml:"request"`
	Steps    []step            `yaml:"steps"`
	Upstream []reply           `yaml:"upstream"`
	Origin   originSettings    `yaml:"origin"`
	Expect   *int              `yaml:"expect"` // HTTP/1 responses to wait for
	Lines    int               `yaml:"lines"`  // of each access log, if more than requests
	Linger   time.Duration     `yaml:"linger"`
	Settings map[string]uint32 `yaml:"settings"` // of the HTTP/2 client
	Window   *bool             `yaml:"auto_window"`
	Ignore   []string          `yaml:"ignore"` // fields that are left to chance
}

type originSettings struct {
	Settings map[string]uint32 `yaml:"settings"`
}

type tlsClient struct {
	SNI  string   `yaml:"sni"`
	ALPN []string `yaml:"alpn"`
	Max  string   `yaml:"max_version"`
}

// request is a well-formed request in any protocol.
type request struct {
	Method   string   `yaml:"method"`
	Path     string   `yaml:"path"`
	Host     string   `yaml:"host"`
	Headers  []string `yaml:"headers"`
	Body     string   `yaml:"body"`
	Chunked  bool     `yaml:"chunked"`
	Trailers []string `yaml:"trailers"`
}

// step is one thing that a client does. Which fields mean something depends on
// the client.
type step struct {
	Raw    string   `yaml:"raw"`
	Wait   string   `yaml:"wait"` // response, soon, headers, close, bytes N, or a duration
	Do     string   `yaml:"do"`   // close, half-close, rst
	Stream uint32   `yaml:"stream"`
	Fields []string `yaml:"fields"` // an HTTP/2 header block
	End    bool     `yaml:"end"`
	Data   *string  `yaml:"data"`
	Frame  string   `yaml:"frame"` // rst, goaway, window, ping, settings, priority, raw
	Number uint32   `yaml:"number"`
	Repeat int      `yaml:"repeat"`
}

// reply is what the upstream answers to one request.
type reply struct {
	When     string        `yaml:"when"` // headers, or request (the default): when to answer
	Delay    time.Duration `yaml:"delay"`
	Drop     string        `yaml:"drop"` // close or rst, instead of an answer
	Raw      string        `yaml:"raw"`
	Status   int           `yaml:"status"`
	Headers  []string      `yaml:"headers"`
	Interim  []interim     `yaml:"interim"`
	Body     *string       `yaml:"body"`
	Chunked  bool          `yaml:"chunked"`
	Pause    time.Duration `yaml:"pause"` // between headers and body
	Trailers []string      `yaml:"trailers"`
	Then     string        `yaml:"then"` // keep, close, rst, hang, echo
	// Of HTTP/2: a reset instead of the rest, at start, headers or body.
	Reset   string   `yaml:"reset"`
	ResetAt string   `yaml:"reset_at"`
	Goaway  string   `yaml:"goaway"`
	Fields  []string `yaml:"fields"`
}

type interim struct {
	Status  int      `yaml:"status"`
	Headers []string `yaml:"headers"`
}

func loadGroups() ([]*group, error) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		return nil, err
	}
	groups := make([]*group, 0, len(files))
	for _, file := range files {
		g, err := loadGroup(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func loadGroup(file string) (*group, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	g := &group{name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(g); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i := range g.Templates {
		cases, err := expand(&g.Templates[i])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", g.Templates[i].Line, err)
		}
		for _, c := range cases {
			if seen[c.Name] {
				return nil, fmt.Errorf("line %d: two cases are called %q", g.Templates[i].Line, c.Name)
			}
			seen[c.Name] = true
		}
		g.cases = append(g.cases, cases...)
	}
	return g, nil
}

// expand makes a case for each combination of the values in its "for".
func expand(node *yaml.Node) ([]exchange, error) {
	var loop struct {
		For map[string][]yaml.Node `yaml:"for"`
	}
	if err := node.Decode(&loop); err != nil {
		return nil, err
	}
	combinations := []map[string]yaml.Node{{}}
	for _, name := range slices.Sorted(maps.Keys(loop.For)) {
		var next []map[string]yaml.Node
		for _, base := range combinations {
			for _, value := range loop.For[name] {
				c := maps.Clone(base)
				c[name] = value
				next = append(next, c)
			}
		}
		combinations = next
	}
	out := make([]exchange, 0, len(combinations))
	for _, values := range combinations {
		var c exchange
		if err := decodeStrict(substitute(node, values), &c); err != nil {
			return nil, err
		}
		c.Name = printable(c.Name)
		if c.Listener == "" {
			c.Listener = "main"
		}
		if c.Client == "" {
			c.Client = "h1"
		}
		out = append(out, c)
	}
	return out, nil
}

// printable keeps the name of a case fit for a table and for a pattern: ~0A
// stands for a line feed, for example.
func printable(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r < ' ' || r > 0x7e && r < 0xa0 || strings.ContainsRune("|`[]\\", r) {
			fmt.Fprintf(&b, "~%02X", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// decodeStrict is Node.Decode that refuses fields nobody knows.
func decodeStrict(node *yaml.Node, into any) error {
	data, err := yaml.Marshal(node)
	if err != nil {
		return err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	return dec.Decode(into)
}

// substitute copies a node with ${name} replaced in every scalar. Aliases are
// followed, so that the copy stands alone.
func substitute(node *yaml.Node, values map[string]yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return substitute(node.Alias, values)
	}
	c := *node
	c.Anchor = ""
	c.Content = nil
	for _, child := range node.Content {
		c.Content = append(c.Content, substitute(child, values))
	}
	if c.Kind != yaml.ScalarNode || !strings.Contains(c.Value, "${") {
		return &c
	}
	for name, value := range values {
		if c.Value == "${"+name+"}" {
			whole := value // a number stays one
			return &whole
		}
		c.Value = strings.ReplaceAll(c.Value, "${"+name+"}", value.Value)
	}
	return &c
}

var repetition = regexp.MustCompile(`(?s)%\{(.+?)\*(\d+)\}`)

// text replaces %{a*3} by aaa, for what is too long to write out.
func text(s string) string {
	return repetition.ReplaceAllStringFunc(s, func(m string) string {
		parts := repetition.FindStringSubmatch(m)
		n, _ := strconv.Atoi(parts[2])
		return strings.Repeat(parts[1], n)
	})
}

// fields splits "name: value" lines. A line may start with a colon, as those of
// pseudo-headers do.
func fields(lines []string) []field {
	out := make([]field, 0, len(lines))
	for _, line := range lines {
		line = text(line)
		colon := strings.Index(line[min(1, len(line)):], ":") + min(1, len(line))
		if colon == 0 || line[colon] != ':' {
			out = append(out, field{line, ""})
			continue
		}
		out = append(out, field{line[:colon], strings.TrimPrefix(line[colon+1:], " ")})
	}
	return out
}
