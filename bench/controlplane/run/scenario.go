package main

import "strconv"

// server is a server under test: a program and its variant.
type server struct {
	name, program, cache string
}

// servers lists what is compared; the first is the one in question.
func servers() []server {
	return []server{
		{name: "xebec", program: "peer-xebec"},
		{name: "gcp-linear", program: "peer-gcp", cache: "linear"},
		{name: "gcp-snapshot", program: "peer-gcp", cache: "snapshot"},
	}
}

// scenario is one set-up that every server goes through.
type scenario struct {
	name, title       string
	clusters, streams int
	eds, delta        bool
	stuck, rounds     int
	restart           bool
	// reps is how often each server runs; none of a server that is not named
	// if the map has any entry.
	reps map[string]int
}

// each is the same number of repetitions for every server.
func each(n int) map[string]int {
	m := map[string]int{}
	for _, s := range servers() {
		m[s.name] = n
	}
	return m
}

func scenarios() []scenario {
	return []scenario{
		{
			name: "cds-5000", title: "1 of 5 000 clusters changes, 500 delta streams",
			clusters: 5000, streams: 500, delta: true, rounds: 10, reps: each(3),
		},
		{
			name: "eds-delta", title: "1 000 clusters and assignments, 100 delta streams",
			clusters: 1000, streams: 100, eds: true, delta: true, rounds: 10, reps: each(3),
		},
		{
			name: "eds-sotw", title: "1 000 clusters and assignments, 100 state-of-the-world streams",
			clusters: 1000, streams: 100, eds: true, rounds: 10, reps: each(3),
		},
		{
			name: "streams-10000", title: "100 clusters and assignments, 10 000 delta streams",
			clusters: 100, streams: 10000, eds: true, delta: true, rounds: 3, reps: each(1),
		},
		{
			name: "stuck-0", title: "1 of 1 000 clusters changes, 1 000 delta streams, none stuck",
			clusters: 1000, streams: 1000, delta: true, rounds: 10, reps: each(2),
		},
		{
			name: "stuck-2", title: "the same, 2 of the streams stuck",
			clusters: 1000, streams: 1000, delta: true, stuck: 2, rounds: 10, reps: each(2),
		},
		{
			name: "restart", title: "restart under 500 delta streams that hold all of 5 000 clusters",
			clusters: 5000, streams: 500, delta: true, restart: true, reps: each(2),
		},
		{
			name: "cds-50000", title: "1 of 50 000 clusters changes, 500 delta streams",
			clusters: 50000, streams: 500, delta: true, rounds: 3, reps: map[string]int{"xebec": 2, "gcp-linear": 1},
		},
	}
}

// quick makes a scenario short: one repetition, few rounds, and not the
// set-ups in which the peers take minutes.
func (s scenario) quick() scenario {
	s.rounds = min(s.rounds, 3)
	reps := map[string]int{}
	for name := range s.reps {
		reps[name] = 1
	}
	if s.clusters > 5000 || s.streams > 1000 {
		reps = map[string]int{"xebec": 1}
	}
	s.reps = reps
	return s
}

func (s scenario) serverArgs(v server) []string {
	args := []string{"-clusters", strconv.Itoa(s.clusters), "-eds=" + strconv.FormatBool(s.eds)}
	if v.cache != "" {
		args = append(args, "-cache", v.cache)
	}
	return args
}

func (s scenario) loadArgs(v server) []string {
	rounds := s.rounds
	if s.clusters > 5000 && v.name != "xebec" {
		rounds = 1 // each takes the peers a quarter of a minute
	}
	return []string{
		"-clusters", strconv.Itoa(s.clusters), "-streams", strconv.Itoa(s.streams),
		"-eds=" + strconv.FormatBool(s.eds), "-delta=" + strconv.FormatBool(s.delta),
		"-stuck", strconv.Itoa(s.stuck), "-rounds", strconv.Itoa(rounds), "-restart=" + strconv.FormatBool(s.restart),
	}
}
