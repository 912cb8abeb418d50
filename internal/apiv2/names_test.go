package apiv2

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	_ "github.com/xebec-proxy/xebec/internal/alltypes"
)

// What the conversion rests on: fields of v2 have their number and type in v3, and no
// other field has their name, but for those that rules deal with.
func TestFieldsOfV2(t *testing.T) {
	known := []string{
		"envoy.api.v2.core.HealthCheck.HttpHealthCheck.receive: other",
		"envoy.api.v2.listener.QuicProtocolOptions.max_concurrent_streams: other",
		"envoy.api.v2.route.RouteAction.host_rewrite: name",
		"envoy.data.tap.v2alpha.Connection.local_address: name", // in no resource
		"envoy.data.tap.v2alpha.Connection.remote_address: name",
	}
	n := readNames(protoregistry.GlobalFiles)
	if len(n.v2) < 300 {
		t.Fatalf("only %d messages", len(n.v2))
	}
	for v2, v3 := range n.v3 {
		old, now := fieldsOf(t, v2), fieldsOf(t, v3)
		for i := range old.Len() {
			f := old.Get(i)
			same, named := now.ByNumber(f.Number()), now.ByName(f.Name())
			var found []string
			if same != nil && (same.Kind() != f.Kind() || same.Cardinality() != f.Cardinality() || !follows(n, f.Message(), same.Message())) {
				found = append(found, fmt.Sprintf("%s: other", f.FullName()))
			}
			if named != nil && named.Number() != f.Number() {
				found = append(found, fmt.Sprintf("%s: name", f.FullName()))
			}
			for _, s := range found {
				if !slices.Contains(known, s) {
					t.Errorf("%s in v3", s)
				}
			}
		}
	}
}

func follows(n names, v2, v3 protoreflect.MessageDescriptor) bool {
	switch {
	case v2 == nil || v3 == nil:
		return v2 == nil && v3 == nil
	case v2.FullName() == v3.FullName() || v2.IsMapEntry() && v3.IsMapEntry():
		return true
	}
	return n.v2[v3.FullName()] == v2.FullName()
}

func fieldsOf(t *testing.T, name protoreflect.FullName) protoreflect.FieldDescriptors {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return mt.Descriptor().Fields()
}
