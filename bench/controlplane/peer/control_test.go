package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// recorder notes what is published; publishing fails while broken is set.
type recorder struct {
	published []string
	broken    error
}

func (r *recorder) Register(*grpc.Server) {}

func (r *recorder) Prepare(k resources.Kind, i, gen int) (func() error, error) {
	return func() error {
		r.published = append(r.published, fmt.Sprint(k, i, gen))
		return r.broken
	}, nil
}

func TestBumpChangesWhatIsAskedFor(t *testing.T) {
	r := &recorder{}
	h := (&control{server: r, options: Options{Clusters: 10, EDS: true}}).routes()
	for _, c := range []struct {
		query, published string
		status           int
	}{
		{"type=cds&i=3", "cds 3 1", http.StatusOK},
		{"type=eds&i=9&gen=40", "eds 9 40", http.StatusOK},
		{"type=cds&i=0", "cds 0 41", http.StatusOK},
		{"type=cds&i=10", "", http.StatusBadRequest},
		{"type=cds&i=-1", "", http.StatusBadRequest},
		{"type=lds&i=1", "", http.StatusBadRequest},
		{"type=cds&i=1&gen=x", "", http.StatusBadRequest},
	} {
		r.published = nil
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/bump?"+c.query, nil))
		if got := fmt.Sprint(r.published); w.Code != c.status || c.published != "" && got != "["+c.published+"]" || c.published == "" && got != "[]" {
			t.Errorf("%s: status %d, published %v; want %d, %q", c.query, w.Code, r.published, c.status, c.published)
		}
		var b Bumped
		if c.status == http.StatusOK && (json.Unmarshal(w.Body.Bytes(), &b) != nil || b.Published == 0 || b.Returned < b.Published) {
			t.Errorf("%s: answered %s", c.query, w.Body)
		}
	}
}

func TestBumpOfAKindThatIsNotHeldOrFailsIsAnError(t *testing.T) {
	r := &recorder{broken: errors.New("no")}
	h := (&control{server: r, options: Options{Clusters: 10}}).routes()
	for query, status := range map[string]int{"type=eds&i=1": http.StatusBadRequest, "type=cds&i=1": http.StatusInternalServerError} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/bump?"+query, nil))
		if w.Code != status {
			t.Errorf("%s: status %d, want %d", query, w.Code, status)
		}
	}
}

func TestStatsCountAllocations(t *testing.T) {
	h := (&control{server: &recorder{}}).routes()
	read := func() (s Stats) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/stats", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := read()
	kept := make([]byte, 32<<20)
	for i := range kept {
		kept[i] = 1
	}
	b := read()
	if b.TotalAlloc-a.TotalAlloc < 32<<20 || b.PeakRSS < b.RSS || b.RSS < 1<<20 || b.CPUMicros <= 0 || b.Started != a.Started {
		t.Errorf("before %+v, after %+v", a, b)
	}
	_ = kept[0]
}
