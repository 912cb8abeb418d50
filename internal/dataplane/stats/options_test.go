package stats

import (
	"net/url"
	"testing"
)

func options(t testing.TB, query string) RenderOptions {
	t.Helper()
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	o, err := ParseOptions(q)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
