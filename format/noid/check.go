package noid

import "strings"

// CheckChar computes the check character of id, which is NAAN/name without "ark:/" (NOID check digit algorithm): the
// value of each character in Alphabet (0 for any other) times its position, counted from 1, summed modulo 29.
func CheckChar(id string) byte {
	sum := 0
	for i := range len(id) {
		sum += (i + 1) * max(0, strings.IndexByte(Alphabet, id[i]))
	}
	return Alphabet[sum%len(Alphabet)]
}

// Check reports whether the last character of id is the check character of the rest. In names of fewer than 29
// characters of Alphabet it detects every wrong character and every swap of two neighbors.
func Check(id string) bool {
	if len(id) < 2 {
		return false
	}
	return CheckChar(id[:len(id)-1]) == id[len(id)-1]
}
