package sqlite

import (
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/internal/wordsearch"
)

// wordStatements are the statements of a reader that search the index of words.
type wordStatements struct{ up, down, begun, anyUp, anyDown, of *conn.Stmt }

// statements are those to be prepared.
func (w *wordStatements) statements() map[**conn.Stmt]string {
	return map[**conn.Stmt]string{
		&w.up:      "SELECT n FROM job_word WHERE word = ?3 AND n >= ?1 ORDER BY n LIMIT ?2",
		&w.down:    "SELECT n FROM job_word WHERE word = ?3 AND n <= ?1 ORDER BY n DESC LIMIT ?2",
		&w.begun:   "SELECT n FROM job_word WHERE word >= ?1 AND word < ?2 LIMIT ?3",
		&w.anyUp:   "SELECT n FROM job_made WHERE words IS NOT NULL AND n >= ?1 ORDER BY n LIMIT ?2",
		&w.anyDown: "SELECT n FROM job_made WHERE words IS NOT NULL AND n <= ?1 ORDER BY n DESC LIMIT ?2",
		&w.of:      "SELECT words FROM job_made WHERE n = ?1",
	}
}

// wordRow is a row with the words of its job.
type wordRow struct {
	n     int64
	words string
}

// wordIndex is the index of words for one reader: that of the database, and the rows of the overlay.
type wordIndex struct {
	r     *reader
	newer []wordRow
}

var _ wordsearch.Index = (*wordIndex)(nil)

// With is part of wordsearch.Index.
func (x *wordIndex) With(word string, from int64, up bool, n int) ([]int64, error) {
	s := x.r.words.down
	if up {
		s = x.r.words.up
	}
	s.Text(3, word)
	return x.inOrder(s, from, up, n, func(has string) bool { return has == word })
}

// Any is part of wordsearch.Index.
func (x *wordIndex) Any(from int64, up bool, n int) ([]int64, error) {
	s := x.r.words.anyDown
	if up {
		s = x.r.words.anyUp
	}
	return x.inOrder(s, from, up, n, func(string) bool { return true })
}

// inOrder returns the rows of a statement and those of the overlay that have a word.
func (x *wordIndex) inOrder(s *conn.Stmt, from int64, up bool, n int, fits func(string) bool) ([]int64, error) {
	s.Int(1, from)
	s.Int(2, int64(n))
	found, err := rowNumbers(s)
	if len(x.newer) == 0 || err != nil {
		return found, err
	}
	found = wordsearch.Order(x.with(found, fits), from, up)
	return found[:min(n, len(found))], nil
}

// Begun is part of wordsearch.Index.
func (x *wordIndex) Begun(part string, n int) ([]int64, error) {
	s := x.r.words.begun
	s.Text(1, part)
	s.Text(2, part+"\U0010ffff")
	s.Int(3, int64(n))
	found, err := rowNumbers(s)
	found = x.with(found, func(has string) bool { return strings.HasPrefix(has, part) })
	return found[:min(n, len(found))], err
}

// with adds the rows of the overlay that have a word which fits.
func (x *wordIndex) with(found []int64, fits func(string) bool) []int64 {
	for _, row := range x.newer {
		for w := range strings.SplitSeq(row.words, " ") {
			if fits(w) {
				found = append(found, row.n)
				break
			}
		}
	}
	return found
}

func rowNumbers(s *conn.Stmt) (found []int64, err error) {
	err = rows(s, func(row *conn.Stmt) error {
		found = append(found, row.GetInt(0))
		return nil
	})
	return found, err
}

// worded returns the rows of the overlay whose jobs have words, or had some before the last change.
func (v *view) worded() (all []wordRow) {
	v.each(func(g *generation) bool {
		for n, e := range g.rows {
			if e.job.Words != "" {
				all = append(all, wordRow{n, e.job.Words})
			}
		}
		return false
	})
	return all
}

// pageOfWords adds the jobs with the words of a query to a page, from a row on. It returns the cursor of the next page.
func (s *Store) pageOfWords(r *reader, q *job.Query, w *want, page *rules.Page, from int64) (next string, err error) {
	x := &wordIndex{r, r.view.worded()}
	taken := int64(0)
	last, more, err := wordsearch.Find(x, q.Words, from, q.Oldest, func(rows []int64) (bool, error) {
		for _, n := range rows {
			e, err := s.worded(r, q, w, n)
			if err != nil {
				return false, err
			}
			if e == nil {
				continue
			}
			if !page.Add(&e.job) {
				next = strconv.FormatInt(taken, 10)
				return true, nil
			}
			taken = n
		}
		return false, nil
	})
	if more {
		next = strconv.FormatInt(last, 10)
	}
	return next, err
}

// worded reads the record in a row, nil if it does not match. Of jobs with other words it reads the words only.
func (s *Store) worded(r *reader, q *job.Query, w *want, n int64) (*entry, error) {
	if !s.lines.may(w, n) {
		return nil, nil
	}
	if len(q.Words) > 1 && r.view.row(n) == nil {
		var of job.Job
		r.words.of.Int(1, n)
		err := rows(r.words.of, func(row *conn.Stmt) error {
			of.Words = row.GetText(0)
			return nil
		})
		if err != nil || !q.HasWords(&of) {
			return nil, err
		}
	}
	e, err := s.byRow(r, n)
	if s.leftOut(err) {
		return nil, nil
	}
	if e == nil || err != nil || !q.Matches(&e.job) {
		return nil, err
	}
	return e, nil
}
