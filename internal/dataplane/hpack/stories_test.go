package hpack

import (
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

// story is a file of the project hpack-test-case: the header blocks of one
// connection, as some encoder wrote them.
type story struct {
	Cases []struct {
		Seqno   int                 `json:"seqno"`
		Size    *uint32             `json:"header_table_size"`
		Wire    string              `json:"wire"`
		Headers []map[string]string `json:"headers"`
	} `json:"cases"`
}

// TestStories decodes what other encoders wrote. The stories are not part of
// this project: XEBEC_HPACK_DIR names a copy of hpack-test-case.
func TestStories(t *testing.T) {
	dir := os.Getenv("XEBEC_HPACK_DIR")
	if dir == "" {
		t.Skip("XEBEC_HPACK_DIR names no copy of hpack-test-case")
	}
	files, blocks, encoded := 0, 0, 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasPrefix(d.Name(), "story_") || !strings.HasSuffix(name, ".json") {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var s story
		if err := json.Unmarshal(b, &s); err != nil {
			t.Errorf("%s: %v", name, err)
			return nil
		}
		n, k := s.check(t, name)
		files, blocks, encoded = files+1, blocks+n, encoded+k
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if blocks == 0 {
		t.Fatalf("%s has no stories", dir)
	}
	t.Logf("%d files: %d blocks decoded, %d lists encoded and decoded", files, blocks, encoded)
}

// check decodes every block of a story, and encodes and decodes every list.
func (s *story) check(t *testing.T, name string) (blocks, encoded int) {
	var d, d2 Decoder
	var e Encoder
	d.Init()
	d2.Init()
	e.Init(DefaultTableSize)
	for _, c := range s.Cases {
		var want []pair
		list := &header.Map{}
		for _, f := range c.Headers {
			for n, v := range f {
				want = append(want, pair{n, v})
				list.Add(n, v)
			}
		}
		if c.Wire != "" {
			block, err := hex.DecodeString(c.Wire)
			if err != nil {
				t.Errorf("%s: case %d: %v", name, c.Seqno, err)
				return
			}
			if c.Size != nil {
				d.Allow(*c.Size)
			}
			var m header.Map
			if _, err := d.Decode(block, &m, 1<<20, 1000); err != nil {
				t.Errorf("%s: case %d: %v", name, c.Seqno, err)
				return
			}
			if got := pairs(&m); !same(got, want) {
				t.Errorf("%s: case %d: got %q\nwant %q", name, c.Seqno, got, want)
				return
			}
			blocks++
		}
		var back header.Map
		if _, err := d2.Decode(e.Append(nil, list), &back, 1<<20, 1000); err != nil || !same(pairs(&back), wire(list)) {
			t.Errorf("%s: case %d: encoded and decoded: %v %q", name, c.Seqno, err, pairs(&back))
			return
		}
		encoded++
	}
	return blocks, encoded
}

func same(a, b []pair) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
