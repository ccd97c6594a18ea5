// Package wordsearch finds jobs by the words of a query for stores that have an index from words to rows. What a search
// reads does not grow with the number of jobs.
package wordsearch

import "slices"

// Index is an index of the words of jobs. Rows are numbers in the order of creation.
type Index interface {
	// With returns up to n rows that have a word, in order from a row on: upwards if up.
	With(word string, from int64, up bool, n int) ([]int64, error)

	// Begun returns up to n rows that have a word with a beginning, in any order. A row may be repeated.
	Begun(part string, n int) ([]int64, error)

	// Any returns up to n rows that have words, as With.
	Any(from int64, up bool, n int) ([]int64, error)
}

const (
	few       = 1_000  // rows with a beginning of a word that are sorted at once
	mostBegun = 10_000 // bounds those that one search sorts
	mostRows  = 5_000  // bounds those that it reads one after another if there are more
	part      = 250    // rows at once
)

// Find calls take with rows that may have all words, the last one as the beginning of a word: in order from a row on,
// in parts, until take returns that it has enough. The rows with the rarest word are read. If there are too many with
// each, a search ends after 5,000 rows, and more is true: another one goes on after row last.
func Find(
	x Index, words []string, from int64, up bool, take func(rows []int64) (enough bool, err error),
) (last int64, more bool, err error) {
	whole, begun := words[:len(words)-1], words[len(words)-1]
	next, rarest := x.Any, int64(0)
	for _, w := range whole {
		rows, err := x.With(w, from, up, part)
		if err != nil {
			return 0, false, err
		}
		if len(rows) < part {
			_, err := take(rows)
			return 0, false, err
		}
		if end := rows[part-1]; rarest == 0 || (end > rarest) == up {
			rarest = end
			next = func(from int64, up bool, n int) ([]int64, error) { return x.With(w, from, up, n) }
		}
	}
	for n := range mostRows / part {
		if most := [...]int{few, mostBegun}; n < len(most) { // after few, the next rows may be enough
			rows, err := x.Begun(begun, most[n]+1)
			if err != nil {
				return 0, false, err
			}
			if len(rows) <= most[n] {
				return 0, false, takeAll(Order(rows, from, up), take)
			}
		}
		rows, err := next(from, up, part)
		if err != nil {
			return 0, false, err
		}
		if enough, err := take(rows); enough || err != nil || len(rows) < part {
			return 0, false, err
		}
		last = rows[part-1]
		if from = last - 1; up {
			from = last + 1
		}
	}
	return last, true, nil
}

func takeAll(rows []int64, take func([]int64) (bool, error)) error {
	for some := range slices.Chunk(rows, part) {
		if enough, err := take(some); enough || err != nil {
			return err
		}
	}
	return nil
}

// Order returns rows in order from a row on, each once. It uses the memory of rows.
func Order(rows []int64, from int64, up bool) []int64 {
	rows = slices.DeleteFunc(rows, func(n int64) bool { return n != from && (n > from) != up })
	slices.Sort(rows)
	rows = slices.Compact(rows)
	if !up {
		slices.Reverse(rows)
	}
	return rows
}
