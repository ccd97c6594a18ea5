package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

// settleHead compares the database and the log with the head file and opens that, or creates one for a database
// without it. logged is the number of the last record of the log, or of the last one that the database has; damage is
// what is wrong with the log, "" for nothing.
func (s *Store) settleHead(logged uint64, damage string) error {
	r := s.records
	if r.order = s.options.order; r.order == nil {
		r.order = inParallel
	}
	db, err := s.newest()
	if err != nil {
		return err
	}
	r.applied, db.logged = db.logged, logged
	file, slot, missing, err := s.compareHead(&db)
	if err != nil {
		return err
	}
	if missing == "" {
		missing = damage
	}
	switch {
	case missing != "" && s.options.accept == nil:
		return job.Errorf(job.Internal, "open", "",
			"%s: %s. Put back what is missing, or restore a backup into an empty directory."+
				" To go on without it: stagepost admin accept --data %s --note REASON", filepath.Join(s.dir, database),
			missing,
			s.dir)
	case missing != "":
		s.options.accept(missing)
		db.series = newSeries()
		err = s.adopt(&db)
		slot = 0
	case db.copied:
		db.series = file.series
		if db.series == "" {
			db.series = newSeries()
		}
		err = s.adopt(&db)
		slot = 0
	}
	if err != nil {
		return err
	}
	r.head = db
	r.headFile, err = openHead(s.dir, &r.head, slot, s.options.tap)
	return err
}

// newest returns the newest commit of the database.
func (s *Store) newest() (head, error) {
	db, err := headOf(s.records.c)
	if err != nil {
		return db, err
	}
	audits, hash, err := lastAudit(s.records.c)
	db.numbers = s.records.numbers(audits, hash)
	return db, err
}

// adopt creates the head file of a database. After a power failure the next start repeats it.
func (s *Store) adopt(h *head) error {
	c := s.records.c
	if err := c.Exec(fmt.Sprintf("UPDATE head SET series = '%s', copied = 1", h.series)); err != nil {
		return err
	}
	if err := createHead(s.dir, h, s.options.tap); err != nil {
		return err
	}
	h.copied = false
	return c.Exec("UPDATE head SET copied = 0")
}

// compareHead returns what the database misses of the head file's newest commit.
func (s *Store) compareHead(db *head) (file head, slot int, missing string, err error) {
	file, slot, err = readHead(s.dir)
	name := filepath.Join(s.dir, headName)
	switch {
	case errors.Is(err, fs.ErrNotExist) && db.copied:
		return file, 0, "", nil
	case errors.Is(err, fs.ErrNotExist):
		return file, 0, fmt.Sprintf(
			"%s is missing, which identifies the newest commit: lost commits cannot be detected", name), nil
	case errors.Is(err, errHeadDamaged):
		return file, 0, fmt.Sprintf(
			"%s is damaged, which identifies the newest commit: lost commits cannot be detected", name), nil
	case err != nil:
		return file, 0, "", &job.Error{Op: "open", Kind: job.Unavailable, Err: err}
	case db.series != file.series:
		return file, slot, fmt.Sprintf(
			"it is a copy of another time or directory: %s belongs to another database, whose newest commit is"+
				" %d of %s; this one ends with commit %d%s", name, file.seq, stamp(file.at), db.seq, madeAt(db)), nil
	}
	// This check includes a database that is marked as having no head file: a damaged log can bring it back to that
	// mark, which its first commit removes.
	missing, err = lacks(s.records.c, db, &file)
	return file, slot, missing, err
}

// lacks compares two heads of one series.
func lacks(c *conn.Conn, db, file *head) (string, error) {
	var lost []string
	for _, part := range []struct {
		n         int64
		one, many string
	}{
		{file.seq - db.seq, "commit", "commits"}, {file.rows - db.rows, "job", "jobs"},
		{file.entries - db.entries, "history entry", "history entries"},
		{file.audits - db.audits, "entry of the audit log", "entries of the audit log"},
		{int64(file.logged - db.logged), "record of " + logName, "records of " + logName},
	} {
		switch {
		case part.n == 1:
			lost = append(lost, "1 "+part.one)
		case part.n > 1:
			lost = append(lost, fmt.Sprintf("%d %s", part.n, part.many))
		}
	}
	if len(lost) > 0 {
		return fmt.Sprintf("it has gone back in time: it ends with commit %d%s, the newest commit is %d of %s. "+
			"Missing: %s."+
			" Its log (%s-wal) was removed or damaged, an older database replaced it, or rows were deleted",
			db.seq, madeAt(db), file.seq, stamp(file.at), strings.Join(lost, ", "), database), nil
	}
	if file.seq == db.seq && file.mark != db.mark {
		return fmt.Sprintf("it is not the database that made commit %d of %s: both continued from the same one",
			file.seq, stamp(file.at)), nil
	}
	if file.audits == 0 {
		return "", nil
	}
	s, err := c.Prepare("SELECT hash FROM audit WHERE a = ?")
	if err != nil {
		return "", err
	}
	defer s.Close()
	s.Int(1, file.audits)
	missing := fmt.Sprintf("entry %d of the audit log is missing", file.audits)
	err = rows(s, func(s *conn.Stmt) error {
		missing = ""
		if string(s.GetBytes(0)) != string(file.auditHash[:]) {
			missing = fmt.Sprintf("entry %d of the audit log was replaced", file.audits)
		}
		return nil
	})
	return missing, err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func madeAt(h *head) string {
	if h.seq == 0 {
		return ""
	}
	return " of " + stamp(h.at)
}
