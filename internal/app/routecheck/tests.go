package routecheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// tests is a file of tests (envoy.RouterCheckToolSchema.Validation).
type tests struct {
	Tests []test `yaml:"tests"`
	// Runtime are runtime values for all tests.
	Runtime map[string]any `yaml:"runtime"`
}

type test struct {
	Name     string  `yaml:"test_name"`
	Input    *input  `yaml:"input"`
	Validate *expect `yaml:"validate"`
}

// input is the request of a test.
type input struct {
	Authority   string     `yaml:"authority"`
	Path        string     `yaml:"path"`
	Method      string     `yaml:"method"`
	Random      uint64     `yaml:"random_value"`
	SSL         bool       `yaml:"ssl"`
	Internal    bool       `yaml:"internal"`
	Headers     []keyValue `yaml:"additional_headers"` // the older name
	ReqHeaders  []keyValue `yaml:"additional_request_headers"`
	RespHeaders []keyValue `yaml:"additional_response_headers"`
	Runtime     string     `yaml:"runtime"`
	Metadata    []metadata `yaml:"dynamic_metadata"`
}

type keyValue struct {
	Key   string `yaml:"key"`
	Value string `yaml:"value"`
}

type metadata struct {
	Namespace string         `yaml:"metadata_namespace"`
	Value     map[string]any `yaml:"value"`
	Overwrite bool           `yaml:"allow_overwrite"`
}

// expect is what a test wants; nil and empty fields are not looked at.
type expect struct {
	Cluster        *string    `yaml:"cluster_name"`
	VirtualCluster *string    `yaml:"virtual_cluster_name"`
	VirtualHost    *string    `yaml:"virtual_host_name"`
	HostRewrite    *string    `yaml:"host_rewrite"`
	PathRewrite    *string    `yaml:"path_rewrite"`
	PathRedirect   *string    `yaml:"path_redirect"`
	CodeRedirect   *int       `yaml:"code_redirect"`
	Timeout        *string    `yaml:"timeout"`
	HeaderFields   []keyValue `yaml:"header_fields"` // the older form of request_header_matches
	CustomFields   []keyValue `yaml:"custom_header_fields"`
	ReqMatches     matchers   `yaml:"request_header_matches"`
	RespMatches    matchers   `yaml:"response_header_matches"`
	RouteMetadata  []metaWant `yaml:"route_metadata"`
}

// metaWant is a text in a route's metadata.
type metaWant struct {
	Namespace string `yaml:"namespace"`
	Key       string `yaml:"key"`
	Value     string `yaml:"value"`
}

// matchers are HeaderMatcher messages.
type matchers []*routev3.HeaderMatcher

// UnmarshalYAML reads the messages.
func (m *matchers) UnmarshalYAML(n *yaml.Node) error {
	for _, item := range n.Content {
		var v any
		if err := item.Decode(&v); err != nil {
			return err
		}
		j, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("line %d: %w", item.Line, err)
		}
		h := &routev3.HeaderMatcher{}
		if err := protojson.Unmarshal(j, h); err != nil {
			return fmt.Errorf("line %d: %w", item.Line, err)
		}
		*m = append(*m, h)
	}
	return nil
}

// readTests reads a file of tests, YAML or JSON.
func readTests(name string) ([]test, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%w; give a file of tests", err)
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
	default:
		return nil, fmt.Errorf("%s: tests are read from .yaml, .yml and .json files", name)
	}
	var f tests
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for key := range f.Runtime {
		if !strings.HasPrefix(key, "re2.") { // limits of Envoy's regular expressions, which ours do not need
			return nil, fmt.Errorf("%s: runtime: %s has no effect here: remove it, or name it in a test's input.runtime to turn a fraction on", name, key)
		}
	}
	if len(f.Tests) == 0 {
		return nil, fmt.Errorf("%s has no tests: write a list named tests", name)
	}
	for i := range f.Tests {
		if err := f.Tests[i].check(); err != nil {
			return nil, fmt.Errorf("%s: tests[%d]: %w", name, i, err)
		}
	}
	return f.Tests, nil
}

func (t *test) check() error {
	switch {
	case t.Name == "":
		return errors.New("test_name is missing")
	case t.Input == nil || t.Input.Authority == "" || t.Input.Path == "":
		return fmt.Errorf("%q: input needs authority and path", t.Name)
	case t.Validate == nil:
		return fmt.Errorf("%q: validate is missing", t.Name)
	}
	return nil
}
