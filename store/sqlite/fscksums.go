package sqlite

import (
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// sumAgain recomputes the checksum of a repaired row. A row that did not match before keeps the old one: if the
// repair restored the written values, it matches again.
func (f *fsck) sumAgain(c *conn.Conn, x *fix) error {
	switch {
	case strings.HasPrefix(x.sql, "UPDATE job_now "):
		n := x.values[0].(int64)
		if _, unsound := f.unsound[n]; unsound {
			return nil
		}
		return sumRow(c, f.names, n)
	case strings.HasPrefix(x.sql, "UPDATE message "):
		return sumMessages(c, "m = ?", x.values[0])
	}
	return nil
}

// sums reports the records that do not match their checksums, after the repairs.
func (f *fsck) sums() error {
	left := map[int64]job.ID{}
	for n, id := range f.unsound {
		if !f.repair {
			left[n] = id
			continue
		}
		err := eachRow(f.c, n, func(s *conn.Stmt) error {
			if _, err := f.names.getRow(s); err != nil {
				left[n] = id
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, n := range slices.Sorted(maps.Keys(left)) {
		_, err := damagedJob(mismatch(left[n], "the record"))
		f.fault(left[n], false, "%v", err)
	}
	return nil
}

func eachRow(c *conn.Conn, n int64, row func(*conn.Stmt) error) error {
	s, err := c.Prepare(selectRow + "WHERE m.n = ?")
	if err != nil {
		return err
	}
	defer s.Close()
	s.Int(1, n)
	return rows(s, row)
}

// sumRow recomputes the checksum of a record.
func sumRow(c *conn.Conn, n *names, row int64) error {
	var sum int64
	err := eachRow(c, row, func(s *conn.Stmt) error {
		e, err := n.readRow(s)
		if err == nil {
			sum = e.sumRecord()
		}
		return err
	})
	if err != nil {
		return err
	}
	return runWith(c, "UPDATE job_now SET sum = ?2 WHERE n = ?1", row, sum)
}

// sumMessages does the same for messages.
func sumMessages(c *conn.Conn, where string, value any) error {
	sums := map[int64]int64{}
	s, err := c.Prepare(selectMessage + "WHERE " + where)
	if err != nil {
		return err
	}
	defer s.Close()
	if text, is := value.(string); is {
		s.Text(1, text)
	} else {
		s.Int(1, value.(int64))
	}
	err = rows(s, func(s *conn.Stmt) error {
		m := getMessage(s)
		sums[m.Number] = sumMessage(&m, s.GetBytes(9))
		return nil
	})
	for m, sum := range sums {
		if err == nil {
			err = runWith(c, "UPDATE message SET sum = ?2 WHERE m = ?1", m, sum)
		}
	}
	return err
}

// sumTasks does the same for the tasks of the job in a row.
func sumTasks(c *conn.Conn, n *names, row int64) error {
	sums := map[string]int64{}
	s, err := c.Prepare(selectTasks)
	if err != nil {
		return err
	}
	defer s.Close()
	s.Int(1, row)
	err = rows(s, func(s *conn.Stmt) error {
		t := n.getTask(s)
		sums[t.Name] = sumTask(row, &t)
		return nil
	})
	for name, sum := range sums {
		if err == nil {
			err = runWith(c, "UPDATE task SET sum = ?2 WHERE job = ?1 AND name = ?3", row, sum, name)
		}
	}
	return err
}

func runWith(c *conn.Conn, sql string, values ...any) error {
	return (&fix{sql: sql, values: values}).run(c)
}
