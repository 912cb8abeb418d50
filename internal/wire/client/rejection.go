package client

import (
	"fmt"
	"strings"

	"github.com/xebec-proxy/xebec/internal/clip"
)

// Problem is one bad resource of a response.
type Problem struct {
	// Name is the resource's name; a place in the list such as "#3" if it could
	// not be read, and empty for the response as a whole.
	Name string
	Err  error
}

// Rejection is why a response was rejected.
type Rejection struct {
	Problems []Problem
	// Resources is how many the response holds.
	Resources int
	text      string
}

// Unwrap returns the errors of the resources.
func (r *Rejection) Unwrap() []error {
	list := make([]error, 0, len(r.Problems))
	for _, p := range r.Problems {
		list = append(list, p.Err)
	}
	return list
}

// Error names every bad resource with what is wrong with it, and is cut at 4 KiB
// (XC-09, GC-53). If there are many, each gets a share of that.
func (r *Rejection) Error() string { return r.text }

func newRejection(problems []Problem, resources int) *Rejection {
	r := &Rejection{Problems: problems, Resources: resources}
	var b strings.Builder
	if len(problems) > 1 {
		fmt.Fprintf(&b, "%d problems in %d resources: ", len(problems), resources)
	}
	room := maxRejection - b.Len()
	names, texts := 0, make([]string, len(problems))
	for i, p := range problems {
		texts[i] = p.Err.Error()
		names += len(p.Name) + len(": ; ")
	}
	share := max(0, room-names) / len(problems)
	if total(texts)+names <= room {
		share = maxRejection
	}
	for i, p := range problems {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.Name)
		if p.Name != "" && share > 0 {
			b.WriteString(": ")
		}
		b.WriteString(clip.Text(texts[i], share))
		if b.Len() > maxRejection {
			break
		}
	}
	r.text = clip.Text(strings.ToValidUTF8(b.String(), "?"), maxRejection)
	return r
}

func total(texts []string) int {
	n := 0
	for _, s := range texts {
		n += len(s)
	}
	return n
}
