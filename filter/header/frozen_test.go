package header

import "testing"

// TestFrozen lists fill maps with the same fields, however the map that they
// came from goes on.
func TestFrozen(t *testing.T) {
	var m Map
	m.AddID(Path, "/x")
	m.Add("x-a", "1")
	m.AddBytes([]byte("x-b"), []byte("2"))
	m.Add("cookie", "a")
	m.Add("cookie", "b")
	m.Del("x-a")
	f := m.Freeze()
	want := m.String()
	m.Reset()
	m.AddBytes([]byte("overwritten"), []byte("what was there"))
	var a, b Map
	a.Thaw(f)
	a.SetID(Path, "/changed")
	a.Add("x-c", "3")
	a.Del("cookie")
	b.Thaw(f)
	if b.String() != want || b.Len() != f.Len() || b.Size() != f.Size() || b.Path() != "/x" || b.Count("cookie") != 2 || b.Has("x-a") {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
	if b.SetID(Cookie, "c"); b.Count("cookie") != 1 {
		t.Errorf("a repeated name is there %d times after it was set", b.Count("cookie"))
	}
	if got, want := a.String(), ":path: /changed\nx-b: 2\nx-c: 3\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
