package edge

import (
	"strings"
	"testing"
)

// Proves HC-32 and HC-41 for configurations that cannot be; and that what is
// not built is refused by name.
func TestRefusedConfigurations(t *testing.T) {
	for json, want := range map[string]string{
		`"stripAnyHostPort":true,"stripMatchingHostPort":true`:                                                           "strip_any_host_port: Error: Only one of `strip_matching_host_port` or `strip_any_host_port` can be set.",
		`"internalAddressConfig":{"cidrRanges":[{"addressPrefix":"10.0.0.0"},{"addressPrefix":"10.0.0","prefixLen":8}]}`: "internal_address_config.cidr_ranges[1]: invalid ip/mask combo '10.0.0/8' (format is <ip>/<# mask bits>)",
		`"internalAddressConfig":{"cidrRanges":[{"addressPrefix":"10.0.0.0","prefixLen":33}]}`:                           "internal_address_config.cidr_ranges[0]: invalid ip/mask combo '10.0.0.0/33'",
		`"requestIdExtension":{"typedConfig":{"@type":"type.googleapis.com/google.protobuf.Struct","value":{}}}`:         "request_id_extension.typed_config: Didn't find a registered implementation for type: 'google.protobuf.Struct'",
	} {
		_, err := New(config(t, json), &Env{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", json, err, want)
		}
	}
}

// The rules hold a name under one index only.
func TestSetsHoldWhatTheyShould(t *testing.T) {
	s := newSets()
	for _, ids := range [][]idSet{{s.sanitize, s.sanitizeEdge}, {s.hopByHop, s.sanitize}} {
		if ids[0].meets(&ids[1]) {
			t.Error("two groups share a name")
		}
	}
	for _, id := range s.sanitizeIDs {
		if !s.sanitize.has(id) || !s.foldRequest.has(id) {
			t.Errorf("%s is missing", id.Name())
		}
	}
}
