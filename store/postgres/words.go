package postgres

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/internal/wordsearch"
)

const (
	setWords = `UPDATE job_made m SET words = v.words FROM unnest($1::bigint[], $2::text[]) AS v (n, words)
 WHERE m.n = v.n`
	removeWords = `DELETE FROM job_word w USING unnest($1::bigint[], $2::text[]) AS v (n, word)
 WHERE w.word = v.word AND w.n = v.n`
	insertWords = "INSERT INTO job_word (n, word) SELECT * FROM unnest($1::bigint[], $2::text[])"
)

// writeMade inserts what does not change about jobs, and their words.
func (b *batch) writeMade(s *statement, p *pgx.Batch, added []*record) {
	insertInto(s, &made, added)
	queueWords(p, insertWords, added)
}

// writeWords replaces the words of jobs.
func (b *batch) writeWords(p *pgx.Batch, before, after []*record) {
	if len(after) == 0 {
		return
	}
	p.Queue(setWords, valuesOf(after, func(r *record) int64 { return r.n }),
		valuesOf(after, func(r *record) string { return r.job.Words }))
	queueWords(p, removeWords, before)
	queueWords(p, insertWords, after)
}

// queueWords adds a statement about the rows of the words of records.
func queueWords(p *pgx.Batch, statement string, of []*record) {
	var rows []int64
	var words []string
	for _, r := range of {
		for w := range strings.FieldsSeq(r.job.Words) {
			rows, words = append(rows, r.n), append(words, w)
		}
	}
	if len(rows) > 0 {
		p.Queue(statement, rows, words)
	}
}

// wordIndex is the index of words in the transaction of a reader.
type wordIndex struct{ *reader }

var _ wordsearch.Index = wordIndex{}

// With is part of wordsearch.Index.
func (x wordIndex) With(word string, from int64, up bool, n int) ([]int64, error) {
	return all(x.reader, pgx.RowTo[int64], "SELECT n FROM job_word WHERE word = $1 AND n "+
		pick(up, ">= $2 ORDER BY n", "<= $2 ORDER BY n DESC")+" LIMIT $3", word, from, n)
}

// Any is part of wordsearch.Index.
func (x wordIndex) Any(from int64, up bool, n int) ([]int64, error) {
	return all(x.reader, pgx.RowTo[int64], "SELECT n FROM job_made WHERE words <> '' AND n "+
		pick(up, ">= $1 ORDER BY n", "<= $1 ORDER BY n DESC")+" LIMIT $2", from, n)
}

// Begun is part of wordsearch.Index.
func (x wordIndex) Begun(part string, n int) ([]int64, error) {
	return all(x.reader, pgx.RowTo[int64], `SELECT n FROM job_word
 WHERE word >= $1 AND word < $1 || U&'\+10FFFF' LIMIT $2`, part, n)
}

// words adds the conditions of the words of a query.
func (c *conditions) words(words []string) {
	for i, w := range words {
		if i < len(words)-1 {
			w += " "
		}
		c.add("strpos(' ' || m.words || ' ', %s) > 0", " "+w)
	}
}

// pageOfWords reads a page of the jobs with the words of a query, from a row on.
func (r *reader) pageOfWords(q *job.Query, from int64) (job.Page, error) {
	page, taken, next := rules.NewPage(q), int64(0), ""
	order := pick(q.Oldest, "", " DESC")
	last, more, err := wordsearch.Find(wordIndex{r}, q.Words, from, q.Oldest, func(rows []int64) (bool, error) {
		if len(rows) == 0 {
			return false, nil
		}
		var c conditions
		c.add("m.n = ANY (%s)", rows)
		c.query(q)
		found, err := r.q.Query(r.ctx, selectRecord+c.where()+" ORDER BY m.n"+order, c.args...)
		if err != nil {
			return false, err
		}
		defer found.Close()
		for found.Next() {
			one, err := scanRecord(found)
			if err != nil {
				return false, err
			}
			r.s.touched.Add(1)
			if !page.Add(&one.job) {
				next = strconv.FormatInt(taken, 10)
				return true, nil
			}
			taken = one.n
		}
		return false, found.Err()
	})
	if more {
		next = strconv.FormatInt(last, 10)
	}
	return job.Page{Jobs: page.Jobs, Next: next}, err
}
