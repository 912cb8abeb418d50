package client

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/xebec-proxy/xebec/bench/client/talk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake brings each value at once, or the error.
type fake struct {
	seen *Seen
	err  error
}

func (f fake) Watch(from, to int, assignments bool) error {
	for range to - from {
		f.seen.Add()
		if assignments {
			f.seen.Add()
		}
	}
	if f.err != nil {
		f.seen.Fail(f.err)
	}
	return nil
}

func TestRunAnswersWatches(t *testing.T) {
	var seen Seen
	var out strings.Builder
	in := `{"do":"watch","to":3}` + "\n" + `{"do":"watch","from":3,"to":5,"assignments":true}` + "\n" + `{"do":"rest"}` + "\n" + `{"do":"change"}`
	if err := (Options{}).Run(t.Context(), strings.NewReader(in), &out, fake{seen: &seen}, &seen); err != nil {
		t.Fatal(err)
	}
	var a [4]talk.Answer
	d := json.NewDecoder(strings.NewReader(out.String()))
	for i := range a {
		if err := d.Decode(&a[i]); err != nil {
			t.Fatal(err)
		}
	}
	if a[0].Took <= 0 || a[1].Took <= 0 || a[2].Values != 7 || a[2].Heap == 0 || a[2].Goroutines == 0 || a[3].Error == "" {
		t.Errorf("answers %+v", a)
	}
}

func TestAnErrorOfAWatchEndsTheWaiting(t *testing.T) {
	var seen Seen
	broken := errors.New("not a value")
	for range 2 { // the second time before anything is watched
		a, err := answer(t.Context(), talk.Ask{Do: talk.Watch, To: 2}, fake{&seen, broken}, &seen)
		if !errors.Is(err, broken) {
			t.Errorf("answer %+v, %v", a, err)
		}
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var seen Seen
	if err := seen.Wait(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
