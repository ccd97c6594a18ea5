package takeover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/internal/conn"
)

// oldResult is the name of the results in a job's directory at the original.
const oldResult = "output.zip"

// oldJob is a row of the original's table of jobs.
type oldJob struct {
	id, user      int64
	service, word string
	dir, created  string
}

func (o *oldJob) owner() string { return "user-" + strconv.FormatInt(o.user, 10) }

func (o *oldJob) key() string { return "job-orchestrator/" + strconv.FormatInt(o.id, 10) }

// Read reads the original's table. It changes nothing.
func Read(database string) (Jobs, error) {
	db, err := conn.Open(database, conn.ReadOnly, "")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.Prepare("SELECT id, user_id, service, status, loc, coalesce(created_at, '') FROM jobs ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("%s is no database of job-orchestrator: %w", database, err)
	}
	defer rows.Close()
	var old Jobs
	for {
		more, err := rows.Step()
		if err != nil || !more {
			return old, err
		}
		id := rows.GetInt(0)
		if id < 1 || id > math.MaxUint32 {
			return nil, fmt.Errorf("%s: a job has the id %d: the original gives 1 to %d", database, id,
				uint32(math.MaxUint32))
		}
		old = append(old, oldJob{
			id: id, user: rows.GetInt(1), service: rows.GetText(2), word: rows.GetText(3), dir: rows.GetText(4),
			created: rows.GetText(5),
		})
	}
}

// will is what a row becomes here. It follows from the row and the check of its files, the same in a dry run.
type will struct {
	as      *compute.Imported // nil: it runs here
	files   bool              // there are some to copy
	created time.Time         // zero: not known
	fails   bool              // it ends badly here, and had not there
	notices []string
}

// will decides what becomes of a row.
func (o *oldJob) will(f *oldFiles, now time.Time) (w will) {
	note := func(format string, args ...any) {
		w.notices = append(w.notices, fmt.Sprintf("job %d: ", o.id)+fmt.Sprintf(format, args...))
	}
	bad := func(format string, args ...any) { w.fails = true; note(format, args...) }
	word := wire.ParseStored(o.word)
	w.files = !f.gone
	w.as = &compute.Imported{From: "job-orchestrator", Word: strings.ToLower(string(word)), Missing: f.gone,
		Created: o.created}
	if f.results {
		w.as.Results = oldResult
	}
	var ok bool
	if w.created, ok = o.time(now); !ok {
		note("its time of creation, %q, is no time in the past; it counts as created now", o.created)
	}
	if len(f.odd) > 0 && word != wire.Queued {
		note("%d of its files are not taken over: their names are no UTF-8, such as %q", len(f.odd), f.odd[0])
	}
	switch word {
	case wire.Queued:
		o.waits(f, &w, bad)
	case wire.Completed:
		switch {
		case f.gone:
			bad("it had completed, and its directory %s is gone: it becomes Failed", o.dir)
		case !f.results:
			bad("it had completed, and there is no %s in %s: it becomes Failed", oldResult, o.dir)
		case f.damage != nil:
			bad("it had completed, and its results are damaged (%s): it becomes Failed", f.damage)
		}
	case wire.Failed, wire.Invalid, wire.Killed:
		switch {
		case f.gone:
			note("its directory %s is gone", o.dir)
		case f.damage != nil:
			note("its results are damaged (%s)", f.damage)
		}
	default:
		bad("it was %s, and what its client made of it is not known here: it becomes Failed with the cause lost",
			strings.ToLower(o.word))
	}
	return w
}

// waits decides about a row that waits for its turn.
func (o *oldJob) waits(f *oldFiles, w *will, bad func(format string, args ...any)) {
	switch {
	case f.gone:
		bad("it was queued, and its directory %s is gone: it becomes Invalid", o.dir)
	case len(f.odd) > 0:
		bad("it was queued, and the name %q of a file of it is no UTF-8: it becomes Invalid", f.odd[0])
	case !slices.Contains(f.names, compute.Script):
		bad("it was queued, and there is no %s in %s: it becomes Invalid when the server starts", compute.Script, o.dir)
		w.as = nil
	default:
		w.as = nil
	}
}

// oldTimes are the forms in which SQLite and the original's libraries write times, all of them in UTC unless they have
// another zone.
var oldTimes = []string{time.DateTime, time.RFC3339, "2006-01-02 15:04:05Z07:00"}

// time reads when the row was made. ok is false if there is no time, or an impossible one.
func (o *oldJob) time(now time.Time) (at time.Time, ok bool) {
	for _, form := range oldTimes {
		if t, err := time.Parse(form, o.created); err == nil && t.Before(now) && t.Year() > 1970 {
			return t.UTC().Truncate(time.Microsecond), true
		}
	}
	return at, false
}

// oldFiles is what lies in a job's directory at the original.
type oldFiles struct {
	gone    bool
	names   []string // of the files that are taken over, without the results
	odd     []string // of those that are not: no job here can have such a name
	results bool
	damage  error // of the results
}

// inspect checks the files of a row. Errors are such that they could not be copied either.
func (o *oldJob) inspect(ctx context.Context) (f oldFiles, err error) {
	err = o.each(func(name string, file *os.File) error {
		if name != oldResult {
			f.names = append(f.names, name)
			return nil
		}
		f.results = true
		info, err := file.Stat()
		if err != nil {
			return err
		}
		_, err = collect.Verify(ctx, file, info.Size())
		if bad := (*collect.BadZip)(nil); errors.As(err, &bad) {
			f.damage, err = bad, nil
		}
		return err
	}, func(name string) { f.odd = append(f.odd, name) })
	if errors.Is(err, fs.ErrNotExist) {
		return oldFiles{gone: true}, nil
	}
	return f, err
}

// copy copies the files of a row. Of one that has not run yet a file with the results' name is its user's.
func (o *oldJob) copy(u *compute.Upload, ran bool) error {
	return o.each(func(name string, file *os.File) error {
		if name == oldResult && ran {
			return u.Results(file)
		}
		return u.Keep(name, file)
	}, func(string) {})
}

// each opens the files of a row one after the other. Only regular files of the directory itself are taken: the original
// has no others. odd receives the names of files that no job here can have.
func (o *oldJob) each(do func(name string, file *os.File) error, odd func(name string)) error {
	root, err := os.OpenRoot(o.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	top, err := root.Open(".")
	if err != nil {
		return err
	}
	entries, err := top.ReadDir(-1)
	if err = errors.Join(err, top.Close()); err != nil {
		return err
	}
	for _, entry := range entries {
		switch {
		case !entry.Type().IsRegular():
			continue
		case !utf8.ValidString(entry.Name()):
			odd(entry.Name())
			continue
		}
		f, err := root.Open(entry.Name())
		if err != nil {
			return err
		}
		if err := errors.Join(do(entry.Name(), f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
