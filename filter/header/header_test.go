package header

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestKnownNames(t *testing.T) {
	for id := ID(1); id < numKnown; id++ {
		if got := KnownID(id.Name()); got != id {
			t.Errorf("%q has id %d, want %d", id.Name(), got, id)
		}
		if got := KnownID(id.Name() + "x"); got != Other {
			t.Errorf("%qx has id %d", id.Name(), got)
		}
	}
	for _, n := range []string{"", "a", "x-foo", ":path2"} {
		if got := KnownID(n); got != Other {
			t.Errorf("%q has id %d", n, got)
		}
	}
}

// model is what a Map should hold.
type model [][2]string

func (m model) get(n string) (string, bool) {
	for _, f := range m {
		if f[0] == n {
			return f[1], true
		}
	}
	return "", false
}

func (m *model) del(n string, from int) int {
	k := 0
	for i := from; i < len(*m); {
		if (*m)[i][0] != n {
			i++
			continue
		}
		*m = slices.Delete(*m, i, i+1)
		k++
	}
	return k
}

func (m *model) set(n, v string) {
	i := slices.IndexFunc(*m, func(f [2]string) bool { return f[0] == n })
	if i < 0 {
		*m = append(*m, [2]string{n, v})
		return
	}
	(*m)[i][1] = v
	m.del(n, i+1)
}

// A map behaves as a plain list does, whatever is done to it.
func TestMapFollowsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Map
		var want model
		names := rapid.SampledFrom([]string{":path", "host", "te", "x-foo", "x-bar", "cookie"})
		values := rapid.StringMatching(`[a-z]{0,4}`)
		act := func(f func(n, v string)) func(*rapid.T) {
			return func(t *rapid.T) { f(names.Draw(t, "name"), values.Draw(t, "value")) }
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":  act(func(n, v string) { m.Add(n, v); want = append(want, [2]string{n, v}) }),
			"copy": act(func(n, v string) { m.AddBytes([]byte(n), []byte(v)); want = append(want, [2]string{n, v}) }),
			"set":  act(func(n, v string) { m.Set(n, v); want.set(n, v) }),
			"del": act(func(n, _ string) {
				if got, k := m.Del(n), want.del(n, 0); got != k {
					t.Fatalf("Del(%q) = %d, want %d", n, got, k)
				}
			}),
			"first": act(func(n, _ string) {
				for i := range m.Fields() {
					if m.Fields()[i].Name == n {
						m.DelAt(i)
						break
					}
				}
				if i := slices.IndexFunc(want, func(f [2]string) bool { return f[0] == n }); i >= 0 {
					want = slices.Delete(want, i, i+1)
				}
			}),
			"append": act(func(n, v string) {
				m.AppendValue(n, ",", v)
				switch old, ok := want.get(n); {
				case !ok:
					want = append(want, [2]string{n, v})
				default:
					i := slices.IndexFunc(want, func(f [2]string) bool { return f[0] == n })
					want[i][1] = strings.TrimPrefix(old+","+v, ",")
					if old == "" {
						want[i][1] = v
					}
				}
			}),
			"": func(t *rapid.T) { checkModel(t, &m, want) },
		})
	})
}

func checkModel(t *rapid.T, m *Map, want model) {
	var got model
	size := 0
	for n, v := range m.All() {
		got = append(got, [2]string{n, v})
		size += len(n) + len(v)
	}
	if !slices.Equal(got, want) || m.Len() != len(want) || m.Size() != size {
		t.Fatalf("got %v (%d fields, %d bytes), want %v (%d bytes)", got, m.Len(), m.Size(), want, size)
	}
	for _, n := range []string{":path", "host", "te", "x-foo", "none"} {
		v, ok := m.Lookup(n)
		if w, wok := want.get(n); v != w || ok != wok || m.Has(n) != wok {
			t.Fatalf("Lookup(%q) = %q, %t, want %q, %t", n, v, ok, w, wok)
		}
	}
	var c Map
	c.CopyFrom(m)
	if c.String() != m.String() {
		t.Fatalf("a copy holds %q, want %q", c.String(), m.String())
	}
}

func TestStatus(t *testing.T) {
	for s, want := range map[string]int{"200": 200, "": 0, "20": 0, "2x0": 0, "099": 99, "2000": 0} {
		var m Map
		m.AddID(Status, s)
		if got := m.Status(); got != want {
			t.Errorf("status %q is %d, want %d", s, got, want)
		}
	}
}

func fill(m *Map) {
	m.Reset()
	m.AddIDBytes(Method, []byte("GET"))
	m.AddIDBytes(Path, []byte("/api/v1/items"))
	m.AddBytes([]byte("user-agent"), []byte("Mozilla/5.0 (X11; Linux x86_64)"))
	m.AddBytes([]byte("x-custom"), []byte("value"))
	m.DelID(Connection)
	m.SetIDBytes(XRequestID, []byte("0123456789"))
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	var m Map
	fill(&m)
	if n := testing.AllocsPerRun(100, func() { fill(&m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFill(b *testing.B) {
	var m Map
	for b.Loop() {
		fill(&m)
	}
}

func ExampleMap() {
	var m Map
	m.Add(":status", "200")
	m.Add("x-a", "1")
	m.Add("x-a", "2")
	m.Set("server", "xebec")
	m.Del("x-b")
	for v := range m.Values("x-a") {
		fmt.Println(v)
	}
	fmt.Println(m.Status(), m.Get("server"))
	// Output:
	// 1
	// 2
	// 200 xebec
}
