package filtertest

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
)

// Config is a message of a type with the fields of a JSON text.
func Config(t testing.TB, kind proto.Message, json string) proto.Message {
	t.Helper()
	m := kind.ProtoReflect().New().Interface()
	if err := protojson.Unmarshal([]byte(json), m); err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	return m
}

// HTTP makes the factory of a kind of filter from its configuration in JSON.
func HTTP(t testing.TB, k filter.HTTPType, json string, env *filter.Env) filter.HTTPFactory {
	t.Helper()
	f, err := k.New(Config(t, k.Config, json), env)
	if err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	return f
}

// Route makes a per-route configuration of a kind of filter from JSON.
func Route(t testing.TB, k filter.HTTPType, json string) any {
	t.Helper()
	c, err := k.ParseRoute(Config(t, k.RouteConfig, json), &filter.Env{Stats: &Stats{}})
	if err != nil {
		t.Fatalf("%s: %v", json, err)
	}
	return c
}
