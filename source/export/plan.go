package export

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"

	"github.com/cespare/xxhash/v2"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// planned is one file to be written.
type planned struct {
	name, typeURL, version string
	resources              []*xds.Resource
	binary                 bool
}

// plan lists the files of a snapshot in the order in which they are to appear: what
// others may need comes first.
func plan(s *snapshot.Snapshot) (list []planned) {
	var whole []planned
	for _, t := range xds.Types() {
		if t.DeltaOnly {
			continue
		}
		folder, set := strings.ToLower(t.API), s.Set(t.URL)
		for _, r := range set.All() {
			if !t.FullState || r.Indirect() {
				list = append(list, single(folder, r))
			}
		}
		if t.FullState && (t.URL != xds.ScopedRouteType || set.Len() > 0) {
			whole = append(whole, planned{name: folder + ".json", typeURL: t.URL, version: set.Version(), resources: set.Direct()})
		}
	}
	return append(list, whole...)
}

// single is the file of one resource.
func single(folder string, r *xds.Resource) planned {
	p := planned{typeURL: r.TypeURL(), version: r.Version(), resources: []*xds.Resource{r}, binary: r.Indirect()}
	suffix := ".json"
	if p.binary {
		suffix = ".pb" // the messages of some list collections cannot say in JSON what they hold
	}
	p.name = folder + "/" + fileName(r.Name()) + suffix
	return p
}

// fileName makes a name of one part that is not hidden and no file system refuses. One
// that is very long ends in a hash.
func fileName(name string) string {
	const longest, kept = 200, 160
	s := url.PathEscape(name)
	if rest, hidden := strings.CutPrefix(s, "."); hidden {
		s = "%2E" + rest
	}
	if len(s) > longest {
		var sum [8]byte
		for i, v := 0, xxhash.Sum64String(name); i < len(sum); i, v = i+1, v>>8 {
			sum[i] = byte(v)
		}
		s = s[:kept] + "+" + hex.EncodeToString(sum[:])
	}
	return s
}

// encode is the content of a file.
func encode(p planned) ([]byte, error) {
	m := &discoveryv3.DiscoveryResponse{VersionInfo: p.version, TypeUrl: p.typeURL}
	for _, r := range p.resources {
		a, err := wrapped(r)
		if err != nil {
			return nil, fmt.Errorf("exporting %s %q: %w", xds.Kind(r.TypeURL()), r.Name(), err)
		}
		m.Resources = append(m.Resources, a)
	}
	var data []byte
	var err error
	if p.binary {
		data, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
	} else {
		data, err = protojson.MarshalOptions{Multiline: true, UseProtoNames: true}.Marshal(m)
	}
	if err == nil && !p.binary && len(p.resources) == 0 { // or else nobody knows what the file is
		data = append(bytes.TrimRight(data, "\n}"), ",\n  \"resources\": []\n}"...)
	}
	if err != nil {
		return nil, fmt.Errorf("exporting %s: %w", p.name, err)
	}
	return data, nil
}

// wrapped is a resource as a file has it: in a Resource message if there is more to say
// of it than its own message does.
func wrapped(r *xds.Resource) (*anypb.Any, error) {
	own := xds.NewResource(r.TypeURL(), r.Name(), r.Body(), xds.WithAliases(r.Aliases()...), xds.WithBodyType(r.BodyType()))
	m := &discoveryv3.Resource{Name: r.Name(), Aliases: r.Aliases(), Resource: r.Any()}
	if r.Version() != own.Version() {
		m.Version = r.Version()
	}
	if m.GetVersion() == "" && len(m.GetAliases()) == 0 && r.HasOwnName() {
		return r.Any(), nil
	}
	return anypb.New(m) //nolint:wrapcheck // the caller says of what
}

// Folder is the name of a folder for a group, in a directory that has one for each.
func Folder(group string) string { return fileName(group) }
