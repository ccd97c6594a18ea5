package sqlite

import (
	"hash/maphash"
	"strings"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// words compares the index of words with the records: by sums of their rows, which one pass over each gives, and row by
// row if these differ.
func (f *fsck) words() error {
	seed := maphash.MakeSeed()
	var indexed, recorded uint64
	err := each(f.c, "SELECT word, n FROM job_word", func(s *conn.Stmt) error {
		indexed += sumWord(seed, s.GetText(0), s.GetInt(1))
		return nil
	})
	if err != nil {
		return err
	}
	err = f.eachWords(func(n int64, id job.ID, words string, bad error) error {
		if bad != nil {
			f.fault(id, false, "%v", bad)
			return nil
		}
		for w := range strings.SplitSeq(words, " ") {
			recorded += sumWord(seed, w, n)
		}
		return nil
	})
	if err != nil || indexed == recorded {
		return err
	}
	if err := f.strayWords(); err != nil {
		return err
	}
	return f.lostWords()
}

// sumWord is a number for a word of the job in a row. Sums of them do not depend on the order.
func sumWord(seed maphash.Seed, word string, n int64) uint64 {
	x := maphash.String(seed, word) ^ uint64(n)*0x9e3779b97f4a7c15
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	return x ^ x>>33
}

// eachWords calls do with the words of each job that has some, or with what is wrong with them.
func (f *fsck) eachWords(do func(n int64, id job.ID, words string, bad error) error) error {
	return each(f.c, "SELECT n, id, words FROM job_made WHERE words IS NOT NULL", func(s *conn.Stmt) error {
		words := s.GetText(2)
		if err := do(s.GetInt(0), job.ID(s.GetText(1)), words, job.CheckWords(words)); err != nil {
			return err
		}
		return f.ctx.Err()
	})
}

// strayWords finds rows of the index that no record has.
func (f *fsck) strayWords() error {
	return each(f.c, `SELECT w.word, w.n FROM job_word w LEFT JOIN job_made m ON m.n = w.n
 WHERE m.words IS NULL OR instr(' ' || m.words || ' ', ' ' || w.word || ' ') = 0`, func(s *conn.Stmt) error {
		f.derived("", rowFix(s.GetInt(1), "DELETE FROM job_word WHERE word = ? AND n = ?", s.GetText(0), s.GetInt(1)),
			"word %q names a job that does not have it", s.GetText(0))
		return f.ctx.Err()
	})
}

// lostWords finds words of records that the index does not have.
func (f *fsck) lostWords() error {
	has, err := f.c.Prepare("SELECT 1 FROM job_word WHERE word = ? AND n = ?")
	if err != nil {
		return err
	}
	defer has.Close()
	return f.eachWords(func(n int64, id job.ID, words string, bad error) error {
		if bad != nil {
			return nil
		}
		for w := range strings.SplitSeq(words, " ") {
			has.Text(1, w)
			has.Int(2, n)
			there, err := has.Step()
			if err != nil {
				return err
			}
			if there {
				has.Reset()
				continue
			}
			f.derived(id, rowFix(n, "INSERT OR IGNORE INTO job_word (word, n) VALUES (?, ?)", w, n),
				"cannot be found by its word %q", w)
		}
		return nil
	})
}
