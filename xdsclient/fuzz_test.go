package xdsclient_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// FuzzFileStore reads files that anybody may have written: no panic, and what is
// accepted survives being saved.
func FuzzFileStore(f *testing.F) {
	path := filepath.Join(f.TempDir(), "resources")
	store := xdsclient.FileStore(path, 0)
	if err := store.Save([]xdsclient.Stored{
		{TypeURL: xds.ClusterType, Name: "a", Version: "1", Server: "s", Body: []byte{1}, Confirmed: time.UnixMilli(1)},
	}); err != nil {
		f.Fatal(err)
	}
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := xdsclient.DecodeStore(data)
		if err != nil {
			return
		}
		again, err := xdsclient.DecodeStore(xdsclient.EncodeStore(got))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
