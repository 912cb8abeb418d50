package talk

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestServeAnswersEachLineUntilTheInputEnds(t *testing.T) {
	var out strings.Builder
	var asked []Ask
	err := Serve(strings.NewReader(`{"do":"watch","from":1,"to":3,"assignments":true}`+"\n"+`{"do":"change","times":2,"pause":5000}`), &out,
		func(q Ask) Answer { asked = append(asked, q); return Answer{Values: len(asked)} })
	if err != nil {
		t.Fatal(err)
	}
	want := []Ask{{Do: Watch, From: 1, To: 3, Assignments: true}, {Do: Change, Times: 2, Pause: 5 * time.Microsecond}}
	if len(asked) != 2 || asked[0] != want[0] || asked[1] != want[1] {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
	d := json.NewDecoder(strings.NewReader(out.String()))
	for i := range 2 {
		var a Answer
		if err := d.Decode(&a); err != nil || a.Values != i+1 {
			t.Errorf("answer %d: %+v, %v", i, a, err)
		}
	}
}

func TestServeRefusesWhatIsNoRequest(t *testing.T) {
	err := Serve(strings.NewReader("watch\n"), &strings.Builder{}, func(Ask) Answer { return Answer{} })
	if err == nil {
		t.Error("no error")
	}
}
