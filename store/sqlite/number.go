package sqlite

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// Numbered is part of job.Store. Rows are in order of creation and the numbers of one kind increase with them. So a
// binary search in memory reads some twenty numbers of a million, and no index grows with every job.
func (s *Store) Numbered(ctx context.Context, kind job.Kind, number int64) (found job.Job, err error) {
	none := job.Errorf(job.NotFound, "find", "", "there is no %s with number %d", kind, number)
	word, known := s.names.words.find(string(kind))
	if !known || number < 1 {
		return found, none
	}
	last := s.lines.last() // before the snapshot, which therefore has all rows up to it that were not purged
	err = s.read(ctx, "find", "", func(r *reader) error {
		return r.inSnapshot(func() error {
			row, err := s.lines.numbered(uint32(word), number, last, r.numberOf)
			if err != nil {
				return err
			}
			if row == 0 {
				return none
			}
			e, err := s.byRow(r, row)
			if err == nil && (e == nil || e.job.Kind != kind || e.job.Number != number) {
				return none
			}
			if err == nil {
				found = e.job
			}
			return err
		})
	})
	return found, err
}

// numberOf reads the number of the job in a row, 0 if the row was purged.
func (r *reader) numberOf(row int64) (number int64, err error) {
	if e := r.view.row(row); e != nil {
		return e.job.Number, nil
	}
	r.number.Int(1, row)
	err = rows(r.number, func(s *conn.Stmt) error {
		if number = s.GetInt(0); number < 1 {
			return fmt.Errorf("row %d has number %d", row, number)
		}
		return nil
	})
	return number, err
}

// numbered returns the row of the job of a kind that has the number, or 0, among the rows up to last. read returns
// the number of a row, 0 if the row was purged: a purge removes it from the tables before the lines.
func (l *lines) numbered(kind uint32, number, last int64, read func(row int64) (int64, error)) (int64, error) {
	of := &want{kinds: []uint32{kind}}
	low, high := int64(1), last+1 // rows below low have lower numbers, rows from high on higher ones
	for low < high {
		middle := low + (high-low)/2
		row, n, err := l.nextNumber(of, middle, high, read)
		switch {
		case err != nil:
			return 0, err
		case n == number:
			return row, nil
		case n != 0 && n < number:
			low = row + 1
		default:
			high = middle
		}
	}
	return 0, nil
}

// nextNumber returns the first row from one row on and below another that matches, with its number; 0 if there is
// none.
func (l *lines) nextNumber(w *want, from, below int64, read func(row int64) (int64, error)) (row, number int64,
	err error) {
	for from < below {
		found := l.search(w, from, 1, 1)
		if len(found) == 0 || found[0] >= below {
			return 0, 0, nil
		}
		if number, err = read(found[0]); number != 0 || err != nil {
			return found[0], number, err
		}
		from = found[0] + 1
	}
	return 0, 0, nil
}
