package extension_test

import (
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/extension"
)

const (
	text   = "google.protobuf.StringValue"
	number = "google.protobuf.Int64Value"
	prefix = "type.googleapis.com/"
)

// env knows texts and numbers; places are appended to made.
func env(made *[]*extension.Place) *extension.Env {
	return &extension.Env{
		Workers: 2,
		Known: func(full string) error {
			if full == text || full == number {
				return nil
			}
			return extension.NoFactory(full)
		},
		Unpack: func(a *anypb.Any) (proto.Message, error) { return a.UnmarshalNew() },
		CheckSource: func(path string, c *corev3.ConfigSource) error {
			if c.GetSelf() != nil {
				return errors.New(path + ".self: no")
			}
			return nil
		},
		Add: func(p *extension.Place) { *made = append(*made, p) },
	}
}

func build(cfg proto.Message) (func() string, error) {
	v, ok := cfg.(*wrapperspb.StringValue)
	if !ok || v.GetValue() == "bad" {
		return nil, errors.New("value: I do not like it")
	}
	return v.GetValue, nil
}

func source(change func(*corev3.ExtensionConfigSource)) *corev3.ExtensionConfigSource {
	c := &corev3.ExtensionConfigSource{
		ConfigSource: &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}},
		TypeUrls:     []string{prefix + text, prefix + number},
	}
	if change != nil {
		change(c)
	}
	return c
}

func packed(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// What a worker has changes when it is told, and is the default before.
func TestSlot(t *testing.T) {
	var made []*extension.Place
	s, err := extension.New(extension.HTTP, "x", source(func(c *corev3.ExtensionConfigSource) { c.DefaultConfig = packed(t, wrapperspb.String("default")) }), env(&made), build)
	if err != nil || len(made) != 1 {
		t.Fatal(err, made)
	}
	want := func(worker int, want string) {
		t.Helper()
		if f, ok := s.Get(worker); !ok || f() != want {
			t.Errorf("worker %d does not have %q", worker, want)
		}
	}
	want(0, "default")
	want(1, "default")
	install, err := made[0].Try(wrapperspb.String("new"))
	if err != nil {
		t.Fatal(err)
	}
	want(0, "default")
	install(0)
	want(0, "new")
	want(1, "default")
	made[0].Default(0)
	want(0, "default")
	for bad, text := range map[proto.Message]string{
		wrapperspb.String("bad"): "value: I do not like it",
		wrapperspb.Bool(true):    "Error: filter config has type URL google.protobuf.BoolValue but expect google.protobuf.StringValue, google.protobuf.Int64Value.",
	} {
		if _, err := made[0].Try(bad); err == nil || err.Error() != text {
			t.Errorf("%v: %v", bad, err)
		}
	}
	bare, err := extension.New(extension.HTTP, "x", source(nil), env(&made), build)
	if err != nil || made[1].Default != nil {
		t.Fatal(err)
	}
	if _, ok := bare.Get(1); ok {
		t.Error("there is something before anything came")
	}
}

// All that is wrong with a config_discovery is told, with its path, and no place
// is made.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		filter string
		change func(*corev3.ExtensionConfigSource)
		want   string
	}{
		"no name":   {"", nil, "name: a filter whose configuration is discovered needs one"},
		"no source": {"x", func(c *corev3.ExtensionConfigSource) { c.ConfigSource = nil }, "config_discovery.config_source: a config source is needed"},
		"bad source": {"x", func(c *corev3.ExtensionConfigSource) {
			c.ConfigSource.ConfigSourceSpecifier = &corev3.ConfigSource_Self{Self: &corev3.SelfConfigSource{}}
		}, "config_discovery.config_source.self: no"},
		"no types": {"x", func(c *corev3.ExtensionConfigSource) { c.TypeUrls = nil }, "config_discovery.type_urls: value must contain at least 1 item(s)"},
		"unknown type": {
			"x", func(c *corev3.ExtensionConfigSource) { c.TypeUrls[1] = prefix + "a.B" },
			"config_discovery.type_urls[1]: Error: no factory found for a required type URL a.B.",
		},
		"without warming": {
			"x", func(c *corev3.ExtensionConfigSource) { c.ApplyDefaultConfigWithoutWarming = true },
			"config_discovery.apply_default_config_without_warming: Error: filter config x applied without warming but has no default config.",
		},
		"bad default":   {"x", func(c *corev3.ExtensionConfigSource) { c.DefaultConfig = packed(t, wrapperspb.String("bad")) }, "config_discovery.default_config: value: I do not like it"},
		"other default": {"x", func(c *corev3.ExtensionConfigSource) { c.DefaultConfig = packed(t, wrapperspb.Bool(true)) }, "config_discovery.default_config: Error: filter config has type URL"},
		"broken default": {"x", func(c *corev3.ExtensionConfigSource) {
			c.DefaultConfig = &anypb.Any{TypeUrl: prefix + text, Value: []byte{0xff}}
		}, "config_discovery.default_config: "},
	} {
		var made []*extension.Place
		_, err := extension.New(extension.HTTP, c.filter, source(c.change), env(&made), build)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(made) != 0 {
			t.Errorf("%s: %v, %d places", name, err, len(made))
		}
		if got := extension.Below("at[0]", err).Error(); strings.Count(got, "at[0].") != len(strings.Split(got, "\n")) {
			t.Errorf("%s: paths of %s", name, got)
		}
	}
}

// Looking up what is in force costs nothing on the way of a request.
func TestGetDoesNotAllocate(t *testing.T) {
	var made []*extension.Place
	s, err := extension.New(extension.HTTP, "x", source(func(c *corev3.ExtensionConfigSource) { c.DefaultConfig = packed(t, wrapperspb.String("d")) }), env(&made), build)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := s.Get(1); !ok {
			t.Error("it is gone")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
