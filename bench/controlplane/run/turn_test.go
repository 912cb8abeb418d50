package main

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryScenarioRunsOnceBeforeAnyRunsAgain(t *testing.T) {
	chosen := []scenario{
		{name: "a", reps: map[string]int{"xebec": 2, "gcp-linear": 1}},
		{name: "b", reps: map[string]int{"xebec": 1, "gcp-snapshot": 1}},
	}
	var got []string
	for _, x := range turns(chosen, "xebec,gcp-linear") {
		got = append(got, fmt.Sprint(x.key()))
	}
	if want := []string{"[a xebec]", "[a gcp-linear]", "[b xebec]", "[a xebec]"}; !slices.Equal(got, want) {
		t.Errorf("turns are %v, want %v", got, want)
	}
}

func TestBudgetSkipsWhatTookLongerThanIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long, short := turn{scenario: scenario{name: "long"}}, turn{scenario: scenario{name: "short"}}
		b := newBudget(time.Minute)
		b.took(long, 40*time.Second)
		b.took(short, time.Second)
		if !b.allows(long) || !b.forMore() {
			t.Error("nothing is allowed at the start")
		}
		time.Sleep(31 * time.Second)
		if b.allows(long) || !b.allows(short) || b.forMore() {
			t.Errorf("after 31 of 60 s: long %t, short %t, more %t", b.allows(long), b.allows(short), b.forMore())
		}
		time.Sleep(30 * time.Second)
		if b.allows(short) || b.allows(turn{}) {
			t.Error("something is allowed after the end")
		}
	})
}
