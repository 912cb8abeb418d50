package hpack

import (
	"encoding/binary"
	"slices"
)

// appendHuffman appends the code of a string.
func appendHuffman(dst []byte, s string) []byte {
	var acc uint64 // the last bits, right-aligned
	var n uint
	for i := range len(s) {
		c := huffCode[s[i]]
		bits := uint(c & 31)
		if n+bits > 64 {
			for n >= 8 {
				n -= 8
				dst = append(dst, byte(acc>>n))
			}
		}
		acc = acc<<bits | c>>5
		n += bits
	}
	for n >= 8 {
		n -= 8
		dst = append(dst, byte(acc>>n))
	}
	if n > 0 {
		dst = append(dst, byte(acc<<(8-n))|byte(0xff>>n))
	}
	return dst
}

// huffmanLen is the bytes that appendHuffman appends.
func huffmanLen(s string) int {
	bits := uint64(0)
	for i := range len(s) {
		bits += huffCode[s[i]] & 31
	}
	return int(bits+7) / 8
}

// decodeHuffman appends what a code says. It refuses the code of the end of a
// string, and padding that is longer than 7 bits or not of ones.
func decodeHuffman(dst, src []byte) ([]byte, error) {
	const spare = 2 // two bytes are written at a time
	at := len(dst)
	dst = slices.Grow(dst, len(src)*8/5+spare)
	out := dst[:cap(dst)]
	var acc uint64 // the next bits, left-aligned
	var n uint     // how many
	for {
		if len(src) >= 8 {
			k := (63 - n) >> 3
			acc |= binary.BigEndian.Uint64(src) >> n
			src = src[k:]
			n += k * 8
			acc &= ^uint64(0) << (64 - n)
		} else {
			for n <= 56 && len(src) > 0 {
				acc |= uint64(src[0]) << (56 - n)
				src = src[1:]
				n += 8
			}
		}
		for n >= lookupBits {
			e := lookup[acc>>(64-lookupBits)]
			if e == 0 {
				break
			}
			out[at], out[at+1] = byte(e), byte(e>>8)
			at += int(e >> 24)
			bits := uint(e>>20) & 15
			acc <<= bits
			n -= bits
		}
		switch {
		case n >= lookupBits: // a long code is next
			sym, bits := longSymbol(uint32(acc >> 32))
			if bits == 0 || bits > n {
				if bits > n && len(src) > 0 {
					continue
				}
				return dst, ErrHuffman
			}
			out[at] = sym
			at++
			acc <<= bits
			n -= bits
		case len(src) == 0:
			at, ok := lastSymbols(out, at, acc, n)
			if !ok {
				return dst, ErrHuffman
			}
			return out[:at], nil
		}
	}
}

// lastSymbols decodes the fewer than lookupBits bits before the end.
func lastSymbols(out []byte, at int, acc uint64, n uint) (end int, ok bool) {
	for {
		e := lookup[acc>>(64-lookupBits)]
		bits := uint(e>>16) & 15
		if bits == 0 || bits > n {
			return at, n <= 7 && acc>>(64-n) == 1<<n-1
		}
		out[at] = byte(e)
		at++
		acc <<= bits
		n -= bits
	}
}

// longSymbol decodes a code that lookup has not; 0 bits if there is none.
func longSymbol(v uint32) (sym byte, bits uint) {
	for i := range longCodes {
		if c := &longCodes[i]; uint64(v) < c.end {
			return longSyms[uint32(c.sym)+v>>(32-c.bits)-c.first], uint(c.bits)
		}
	}
	return 0, 0
}
