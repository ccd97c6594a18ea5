package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/wire"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
	"github.com/stagepost/stagepost/store/sqlite/conn"
)

func (c *cli) importJobs() *cobra.Command {
	var database, services string
	var dry bool
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Take over the jobs of a job-orchestrator server",
		Long: `Takes over the jobs in the database of a job-orchestrator server (db.sqlite), with their files and results, into a data directory on which no
server runs. Jobs keep their ids, so that the users' scripts find them. Completed jobs can be downloaded as before; queued ones run when the server starts.

What a job's original client had not told by then is not known here: jobs that were at a client become Failed, and their users submit them again. Cleaned jobs
are left out: there is nothing of them but the word. Files are kept for compute.keep from now on.

May be repeated: a job that is here already is left as it is. The original's files are only read.`,
		Example: "  stagepost import --data /srv/stagepost --database /srv/orchestrator/db.sqlite --compute-services services.yaml --dry-run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.settings.ComputeServices = services
			done, err := c.takeOver(cmd.Context(), database, dry)
			if done != nil {
				err = errors.Join(err, c.printTakeover(done, dry))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&database, "database", "", "the original's database, DB_PATH; its files are found by the paths in it")
	cmd.Flags().StringVar(&services, "compute-services", "", "file of the services that the server will have (see serve)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only tell what would be taken over")
	_ = cmd.MarkFlagRequired("database")
	return cmd
}

// takeover counts what became of the original's jobs.
type takeover struct {
	Taken   int            `json:"taken"`
	Left    int            `json:"left_out"` // cleaned ones
	Failed  int            `json:"failed"`   // of the taken ones: nobody knows how they ended, or their files are gone
	ByWord  map[string]int `json:"by_status"`
	Notices []string       `json:"notices,omitempty"`
}

// oldJob is a row of the original's table of jobs.
type oldJob struct {
	id, user      int64
	service, word string
	dir, created  string
}

// takeOver reads the original's database and makes jobs of its rows, in the order of their ids.
func (c *cli) takeOver(ctx context.Context, database string, dry bool) (*takeover, error) {
	old, err := oldJobs(database)
	if err != nil {
		return nil, err
	}
	all, _, err := computeSite(c.settings)
	if err != nil {
		return nil, err
	}
	known := all.Compute()
	var missing []string
	for _, o := range old {
		lacks := !slices.ContainsFunc(known, func(s compute.Service) bool { return s.Name == o.service })
		if lacks && wire.ParseStored(o.word) != wire.Cleaned && !slices.Contains(missing, o.service) {
			missing = append(missing, o.service)
		}
	}
	if len(missing) > 0 {
		return nil, usagef("services that the jobs name and --compute-services does not: %s", strings.Join(missing, ", "))
	}
	done := &takeover{ByWord: map[string]int{}}
	if dry {
		for _, o := range old {
			done.count(&o)
		}
		return done, nil
	}
	dir, err := filepath.Abs(c.settings.Data)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	app, err := compute.New(compute.Options{Dir: dir, Services: known})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	e, err := engine.New(store, app.Works(), engine.Options{})
	if err == nil {
		app.Bind(e)
		for i := range old {
			if err = takeOne(ctx, app, e, &old[i], done); err != nil {
				err = fmt.Errorf("job %d: %w", old[i].id, err)
				break
			}
		}
	}
	return done, errors.Join(err, app.Close(), store.Close())
}

// count notes a job and tells as what it is taken over; nil: it is not, or it runs here.
func (t *takeover) count(o *oldJob) (as *compute.Imported, leave bool) {
	word := wire.ParseStored(o.word)
	t.ByWord[string(word)]++
	as = &compute.Imported{From: "job-orchestrator", Created: o.created}
	switch word {
	case wire.Cleaned:
		t.Left++
		return nil, true
	case wire.Queued:
		as = nil
	case wire.Completed:
		as.Word = compute.ImportCompleted
	case wire.Invalid:
		as.Word = compute.ImportInvalid
	case wire.Killed:
		as.Word = compute.ImportKilled
	case wire.Failed:
		as.Word = compute.ImportFailed
	default:
		as.Word = compute.ImportFailed
		t.Failed++
		t.notice("job %d was %s: what its client made of it is not known here, and it counts as failed", o.id, word)
	}
	t.Taken++
	return as, false
}

func (t *takeover) notice(format string, args ...any) {
	if len(t.Notices) < 100 {
		t.Notices = append(t.Notices, fmt.Sprintf(format, args...))
	}
}

// takeOne makes a job of a row.
func takeOne(ctx context.Context, app *compute.App, e *engine.Engine, o *oldJob, done *takeover) error {
	as, leave := done.count(o)
	if leave {
		return nil
	}
	u, err := app.Begin(ctx)
	if err != nil {
		return err
	}
	defer u.Discard()
	results, err := copyOld(u, o.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		done.notice("job %d: its directory %s is gone", o.id, o.dir)
		if as == nil || as.Word == compute.ImportCompleted {
			as = &compute.Imported{From: "job-orchestrator", Word: compute.ImportFailed, Created: o.created}
			done.Failed++
		}
	case err != nil:
		return err
	case results && as != nil:
		as.Results = "output.zip"
	}
	user := strconv.FormatInt(o.user, 10)
	j, err := u.Commit(ctx, compute.Order{
		Owner: "user-" + user, User: user, Service: o.service, Key: "job-orchestrator/" + strconv.FormatInt(o.id, 10), Number: o.id, Imported: as, By: lifecycle.Operator, Actor: "import",
	})
	if err == nil && j.Number != o.id {
		err = job.Errorf(job.Conflict, "import", j.ID, "it is here under the id %d", j.Number)
	}
	if err == nil && as != nil && as.Word == compute.ImportKilled && !j.Ended {
		_, err = e.Do(ctx, engine.Act{Job: j.ID, Event: compute.Cancel, By: lifecycle.Operator, Actor: "import", Note: "it was killed at the original"})
	}
	return err
}

// copyOld copies the files of a directory of the original. results tells whether there were results. Only regular files of the directory itself are taken: the original has no others.
func copyOld(u *compute.Upload, dir string) (results bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	top, err := root.Open(".")
	if err != nil {
		return false, err
	}
	entries, err := top.ReadDir(-1)
	if err = errors.Join(err, top.Close()); err != nil {
		return false, err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		f, err := root.Open(entry.Name())
		if err != nil {
			return results, err
		}
		take := func(r io.Reader) error { return u.File(entry.Name(), r) }
		if entry.Name() == "output.zip" {
			take, results = u.Results, true
		}
		if err := errors.Join(take(f), f.Close()); err != nil {
			return results, err
		}
	}
	return results, nil
}

// oldJobs reads the original's table, in the order of ids.
func oldJobs(database string) ([]oldJob, error) {
	if _, err := os.Stat(database); err != nil {
		return nil, usage(err)
	}
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
	var old []oldJob
	for {
		more, err := rows.Step()
		if err != nil || !more {
			return old, err
		}
		old = append(old, oldJob{
			id: rows.GetInt(0), user: rows.GetInt(1), service: rows.GetText(2), word: rows.GetText(3), dir: rows.GetText(4), created: rows.GetText(5),
		})
	}
}

func (c *cli) printTakeover(t *takeover, dry bool) error {
	if c.out.mode == modeJSON {
		return c.out.json(t)
	}
	for _, n := range t.Notices {
		c.out.line("%s", n)
	}
	taken := "taken over"
	if dry {
		taken = "would be taken over"
	}
	rows := [][2]string{{taken, strconv.Itoa(t.Taken)}, {"of these failed", strconv.Itoa(t.Failed)}, {"left out (cleaned)", strconv.Itoa(t.Left)}}
	for _, s := range wire.Statuses() {
		if n := t.ByWord[string(s)]; n > 0 {
			rows = append(rows, [2]string{"  " + string(s), strconv.Itoa(n)})
		}
	}
	return c.out.sheet(rows)
}
