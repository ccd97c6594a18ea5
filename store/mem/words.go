package mem

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/internal/wordsearch"
)

// wordIndex has the rows of the jobs with each word. Rows are those of [Store].order.
type wordIndex struct {
	rows  map[string][]int64 // ascending
	words []string           // sorted
	any   []int64            // of jobs that have words, ascending
	read  *int64             // counts rows
}

func newWordIndex(read *int64) wordIndex { return wordIndex{rows: map[string][]int64{}, read: read} }

var _ wordsearch.Index = (*wordIndex)(nil)

// replace replaces the words of a row.
func (x *wordIndex) replace(row int64, before, after string) {
	if before == after {
		return
	}
	for w := range strings.FieldsSeq(before) {
		if x.rows[w] = without(x.rows[w], row); len(x.rows[w]) == 0 {
			delete(x.rows, w)
			x.words = without(x.words, w)
		}
	}
	for w := range strings.FieldsSeq(after) {
		if len(x.rows[w]) == 0 {
			x.words = with(x.words, w)
		}
		x.rows[w] = with(x.rows[w], row)
	}
	switch {
	case before == "":
		x.any = with(x.any, row)
	case after == "":
		x.any = without(x.any, row)
	}
}

func with[T int64 | string](all []T, one T) []T {
	at, _ := slices.BinarySearch(all, one)
	return slices.Insert(all, at, one)
}

func without[T int64 | string](all []T, one T) []T {
	if at, found := slices.BinarySearch(all, one); found {
		return slices.Delete(all, at, at+1)
	}
	return all
}

// With is part of wordsearch.Index.
func (x *wordIndex) With(word string, from int64, up bool, n int) ([]int64, error) {
	return x.part(x.rows[word], from, up, n), nil
}

// Begun is part of wordsearch.Index.
func (x *wordIndex) Begun(part string, n int) (found []int64, err error) {
	at, _ := slices.BinarySearch(x.words, part)
	for ; at < len(x.words) && strings.HasPrefix(x.words[at], part) && len(found) < n; at++ {
		rows := x.rows[x.words[at]]
		found = append(found, rows[:min(len(rows), n-len(found))]...)
	}
	*x.read += int64(len(found))
	return found, nil
}

// Any is part of wordsearch.Index.
func (x *wordIndex) Any(from int64, up bool, n int) ([]int64, error) {
	return x.part(x.any, from, up, n), nil
}

// part returns up to n rows in order from a row on.
func (x *wordIndex) part(rows []int64, from int64, up bool, n int) []int64 {
	at := sort.Search(len(rows), func(i int) bool { return rows[i] >= from })
	if up {
		rows = slices.Clone(rows[at:min(len(rows), at+n)])
	} else {
		if at < len(rows) && rows[at] == from {
			at++
		}
		rows = slices.Clone(rows[max(0, at-n):at])
		slices.Reverse(rows)
	}
	*x.read += int64(len(rows))
	return rows
}

// pageOfWords is a page of the jobs with the words of a query, from a row on.
func (s *Store) pageOfWords(q *job.Query, from int) (job.Page, error) {
	page, next := rules.NewPage(q), ""
	last, more, err := wordsearch.Find(&s.words, q.Words, int64(from), q.Oldest, func(rows []int64) (bool, error) {
		for _, n := range rows {
			s.rows++
			j := s.jobs[s.order[s.position(int(n))].id]
			if !q.Matches(&j) {
				continue
			}
			j.Own()
			if !page.Add(&j) {
				next = strconv.Itoa(s.place[page.Jobs[len(page.Jobs)-1].ID])
				return true, nil
			}
		}
		return false, nil
	})
	if more {
		next = strconv.FormatInt(last, 10)
	}
	return job.Page{Jobs: page.Jobs, Next: next}, err
}
