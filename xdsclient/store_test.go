package xdsclient_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// memStore is a store in memory.
type memStore struct {
	mu    sync.Mutex
	list  []xdsclient.Stored
	saves int
}

func (m *memStore) Load() ([]xdsclient.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list, nil
}

func (m *memStore) Save(list []xdsclient.Stored) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = list
	m.saves++
	return nil
}

func (m *memStore) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, r := range m.list {
		names = append(names, xds.Kind(r.TypeURL)+" "+r.Name)
	}
	return names
}

// Proves GC-77: what one source received is used by the next while no server can
// be reached, with an ambient error and a line in the log; what a server then
// sends replaces it, and what it does not send goes.
func TestStore(t *testing.T) {
	store := &memStore{}
	bubble(t, 1, xdsclient.Config{Store: store}, func(sc *scene) {
		sc.watch(cdsType(), xdsclient.Wildcard)
		sc.watch(edsType(), "x")
		sc.watch(plain(xds.SecretType), "x")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1", "y=1"))
		st.answer(eds("1", "B", "x=1"))
		secret := eds("1", "C", "x=1")
		secret.TypeURL, secret.Resources[0].TypeURL = xds.SecretType, xds.SecretType
		st.answer(secret)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if store.saves != 1 {
			t.Errorf("saved %d times after three responses in a row", store.saves)
		}
	})
	want := []string{"Cluster x", "Cluster y", "ClusterLoadAssignment x"}
	if diff := cmp.Diff(want, store.names()); diff != "" {
		t.Fatalf("stored (secrets must not be):\n%s", diff)
	}
	var log bytes.Buffer
	bubble(t, 1, xdsclient.Config{Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(sc *scene) {
		sc.f[0].fail(errDown)
		all, one, none := newRecord(), newRecord(), newRecord()
		xdsclient.Watch(sc.s, cdsType(), xdsclient.Wildcard, plainly(all))
		xdsclient.Watch(sc.s, edsType(), "x", plainly(one))
		xdsclient.Watch(sc.s, edsType(), "z", plainly(none))
		synctest.Wait()
		one.expect(t, "x=1", "x ~ stored")
		late := newRecord()
		xdsclient.Watch(sc.s, edsType(), "x", plainly(late))
		late.expect(t, "x=1", "x ~ stored")
		none.expect(t, "z: unreachable")
		got := all.take()
		for _, want := range []string{"x=1", "x ~ stored", "y=1", "y ~ stored"} {
			if !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("the wildcard was told %q, want %q in it", got, want)
			}
		}
		sc.f[0].fail(nil)
		st := sc.f[0].again(1)
		st.answer(cds("2", "A", "x=1"))
		all.expect(t, "x ~ <nil>", "* ~ <nil>", "y: missing")
		time.Sleep(20 * time.Second)
		one.expect(t, "x: missing")
	})
	for _, want := range []string{"using a stored resource", "resource=x", "confirmed="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if diff := cmp.Diff([]string{"Cluster x"}, store.names()); diff != "" {
		t.Errorf("stored at the end:\n%s", diff)
	}
}

// Proves GC-77: the file is private, is replaced as a whole, and has an age
// limit; one that is damaged is refused and keeps nobody from starting.
func TestFileStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resources")
	store := xdsclient.FileStore(path, time.Hour)
	if list, err := store.Load(); err != nil || len(list) > 0 {
		t.Fatalf("loading nothing: %v, %v", list, err)
	}
	now := time.UnixMilli(time.Now().UnixMilli())
	young := xdsclient.Stored{TypeURL: xds.ClusterType, Name: "young", Version: "1", Server: "a", BodyType: xds.LocatorType, Body: []byte{1, 2, 3}, Confirmed: now}
	old := young
	old.Name, old.Confirmed = "old", now.Add(-2*time.Hour)
	if err := store.Save([]xdsclient.Stored{young, old}); err != nil {
		t.Fatal(err)
	}
	got, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]xdsclient.Stored{young}, got); diff != "" {
		t.Error(diff)
	}
	if all, _ := xdsclient.FileStore(path, 0).Load(); len(all) != 2 {
		t.Errorf("without an age limit %d of 2 were loaded", len(all))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		broken := bytes.Clone(data)
		broken[i] ^= 1
		if err := os.WriteFile(path, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Load(); err == nil {
			t.Fatalf("byte %d is wrong and nobody noticed", i)
		}
	}
	s := source(t, xdsclient.Config{Servers: []xdsclient.Server{to("a", &fake{t: t})}, Store: store})
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d files in the folder", len(entries))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
