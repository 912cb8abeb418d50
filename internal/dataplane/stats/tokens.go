package stats

import "strings"

// tokens is a name cut at its dots.
type tokens struct {
	name string
	ends []int // of each token
}

func split(name string) tokens {
	n := tokens{name: name, ends: make([]int, 0, strings.Count(name, ".")+1)}
	for i := range len(name) {
		if name[i] == '.' {
			n.ends = append(n.ends, i)
		}
	}
	n.ends = append(n.ends, len(name))
	return n
}

func (n *tokens) start(i int) int {
	if i == 0 {
		return 0
	}
	return n.ends[i-1] + 1
}

func (n *tokens) token(i int) string { return n.name[n.start(i):n.ends[i]] }

// span of tokens [i,j): the value is their text, and with it goes the dot
// behind it, or at the end of the name the one before it.
func (n *tokens) span(i, j int) span {
	from, to := n.start(i), n.ends[j-1]
	s := span{value: n.name[from:to], from: from, to: to}
	if j < len(n.ends) {
		s.to++
	} else {
		s.from--
	}
	return s
}

// address is how many tokens at i are a listener's address: four if it is
// IPv4 and a port, else one.
func (n *tokens) address(i int) int {
	if i+4 > len(n.ends) {
		return 1
	}
	for j := i; j < i+3; j++ {
		if !digits(n.token(j)) {
			return 1
		}
	}
	ip, port, ok := strings.Cut(n.token(i+3), "_")
	if !ok || !digits(ip) || !digits(port) {
		return 1
	}
	return 4
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// pattern is a rule over tokens, written as text:
//
//	word   this token          *   any token      @   a listener's address
//	**     any number of tokens, one at least if it ends the pattern
//	$      a token that is the value     $@  an address that is
//	$$     one or more tokens that are
type pattern struct {
	parts []string
	value func(string) bool // nil for any
}

func newPattern(s string, value func(string) bool) pattern {
	return pattern{parts: strings.Split(s, "."), value: value}
}

func (p pattern) find(n *tokens) (span, bool) {
	i, j, ok := match(n, 0, p.parts)
	if !ok {
		return span{}, false
	}
	s := n.span(i, j)
	if s.value == "" || p.value != nil && !p.value(s.value) {
		return span{}, false
	}
	return s, true
}

// match matches the tokens from at on; it returns where the value is.
func match(n *tokens, at int, parts []string) (i, j int, ok bool) {
	if len(parts) == 0 {
		return 0, 0, at == len(n.ends)
	}
	if at >= len(n.ends) {
		return 0, 0, false
	}
	rest := parts[1:]
	switch parts[0] {
	case "**":
		if len(rest) == 0 {
			return 0, 0, true
		}
		for k := at; k < len(n.ends); k++ {
			if i, j, ok = match(n, k, rest); ok {
				return i, j, true
			}
		}
		return 0, 0, false
	case "*":
		return match(n, at+1, rest)
	case "@":
		return match(n, at+n.address(at), rest)
	case "$":
		_, _, ok = match(n, at+1, rest)
		return at, at + 1, ok
	case "$@":
		w := n.address(at)
		_, _, ok = match(n, at+w, rest)
		return at, at + w, ok
	case "$$":
		for k := len(n.ends); k > at; k-- {
			if _, _, ok = match(n, k, rest); ok {
				return at, k, true
			}
		}
		return 0, 0, false
	default:
		if n.token(at) != parts[0] {
			return 0, 0, false
		}
		return match(n, at+1, rest)
	}
}
