// Package nearest finds the word that was probably meant.
package nearest

import "strings"

// longest is how long words may be that are compared, in bytes.
const longest = 200

// Word gives the first of the known words with the fewest letters to add, remove or replace, or "". A word that differs
// in upper and lower case alone is the nearest; else a third of the letters may differ, at least two, and never all.
func Word(word string, known []string) string {
	best, least := "", min(max(2, len(word)/3), len(word)-1)+1
	for _, one := range known {
		if word != "" && strings.EqualFold(one, word) {
			return one
		}
		if d := distance(one, word); d < least {
			best, least = one, d
		}
	}
	return best
}

// distance is that of Levenshtein.
func distance(a, b string) int {
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for k := range len(b) {
			cost := corner
			if a[i] != b[k] {
				cost = 1 + min(corner, row[k], row[k+1])
			}
			corner, row[k+1] = row[k+1], cost
		}
	}
	return row[len(b)]
}
