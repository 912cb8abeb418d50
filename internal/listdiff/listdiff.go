// Package listdiff finds what of a list has stayed in the next one.
package listdiff

// Kept tells of each element of now at which place of before it was, or -1. No
// place is told twice. same compares two elements; oldKey and newKey give the
// same for those that are the same, and are asked of the few that are not at
// their place, counted from the beginning or from the end.
func Kept[O, N any, K comparable](before []O, now []N, same func(O, N) bool, oldKey func(O) K, newKey func(N) K) []int32 {
	from := make([]int32, len(now))
	head := 0
	for head < len(before) && head < len(now) && same(before[head], now[head]) {
		from[head] = int32(head)
		head++
	}
	tail, shift := 0, len(before)-len(now)
	for tail < min(len(before), len(now))-head && same(before[len(before)-1-tail], now[len(now)-1-tail]) {
		tail++
		from[len(now)-tail] = int32(len(before) - tail)
	}
	left := map[K]int32{}
	for i := head; i < len(before)-tail; i++ {
		if shift != 0 || !same(before[i], now[i]) {
			left[oldKey(before[i])] = int32(i)
		}
	}
	for i := head; i < len(now)-tail; i++ {
		from[i] = -1
		if shift == 0 && same(before[i], now[i]) {
			from[i] = int32(i)
			continue
		}
		if len(left) == 0 {
			continue
		}
		k := newKey(now[i])
		if was, ok := left[k]; ok {
			from[i] = was
			delete(left, k)
		}
	}
	return from
}
