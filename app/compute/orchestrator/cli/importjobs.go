package orchestratorcli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/sqlite"
)

func (c *commands) importJobs() *cobra.Command {
	var database, services string
	var dry bool
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Take over the jobs of a job-orchestrator server",
		Long: `Takes over the jobs in the database of a job-orchestrator server (db.sqlite), with their files and results, into a data directory on which no
server runs. Jobs keep their ids, so that the users' scripts find them. Completed jobs can be downloaded as before; queued ones run when the server starts.

What a job's original client had not told by then is not known here: jobs that were at a client become Failed with the cause lost, and their users submit them again.
Queued jobs whose files are gone become Invalid, completed ones whose results are gone or damaged Failed. Cleaned jobs are left out: there is nothing of them but the word.
Jobs keep the time of their creation; when one ended the original does not say. Files are kept for compute.keep from the server's next start on.

May be repeated: a job that is here already is left as it is, and counted as such. The original's files are only read. With --dry-run they are looked at in the same way, and
the numbers are those of the import.`,
		Example: "  stagepost import --data /srv/stagepost --database /srv/orchestrator/db.sqlite --compute-services services.yaml --dry-run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.host.ComputeServices = services
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
	Taken   int            `json:"taken"`     // that were not here before
	There   int            `json:"there"`     // that were
	Left    int            `json:"left_out"`  // cleaned ones
	Failed  int            `json:"failed"`    // of the taken ones, those that had not failed there: nobody knows how they ended, or their files are gone or damaged
	ByWord  map[string]int `json:"by_status"` // of all
	Notices []string       `json:"notices,omitempty"`
	Unsaid  int            `json:"notices_left_out,omitempty"`
}

// mostNotices is how many notices are given.
const mostNotices = 1000

func (t *takeover) notice(text string) {
	if len(t.Notices) >= mostNotices {
		t.Unsaid++
		return
	}
	t.Notices = append(t.Notices, text)
}

// takeOver reads the original's database and makes jobs of its rows, in the order of their ids.
func (c *commands) takeOver(ctx context.Context, database string, dry bool) (done *takeover, err error) {
	old, err := oldJobs(database)
	if err != nil {
		return nil, err
	}
	all, _, err := host.ComputeSite(c.host)
	if err != nil {
		return nil, err
	}
	known := all.Compute()
	if missing := unserved(old, known); len(missing) > 0 {
		return nil, cli.Usagef("services that the jobs name and --compute-services does not: %s", strings.Join(missing, ", "))
	}
	dir, err := filepath.Abs(c.Settings.Data)
	if err != nil {
		return nil, err
	}
	done = &takeover{ByWord: map[string]int{}}
	if _, err := os.Stat(filepath.Join(dir, "stagepost.db")); dry && errors.Is(err, fs.ErrNotExist) { // nothing is here, and nothing is to be
		return done, done.all(ctx, old, &newcomer{now: time.Now()})
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	to := &newcomer{store: store, now: time.Now()}
	if dry {
		return done, done.all(ctx, old, to)
	}
	if to.app, err = compute.New(compute.Options{Dir: dir, Services: known}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.app.Close()) }()
	if to.engine, err = engine.New(store, to.app.Works(), engine.Options{}); err != nil {
		return nil, err
	}
	to.app.Bind(to.engine)
	return done, done.all(ctx, old, to)
}

// unserved lists the services that jobs name and nobody knows.
func unserved(old []oldJob, known []compute.Service) (missing []string) {
	for _, o := range old {
		lacks := !slices.ContainsFunc(known, func(s compute.Service) bool { return s.Name == o.service })
		if lacks && wire.ParseStored(o.word) != wire.Cleaned && !slices.Contains(missing, o.service) {
			missing = append(missing, o.service)
		}
	}
	return missing
}

// newcomer is where jobs are taken over to. Without an engine nothing is, and without a store nothing is there.
type newcomer struct {
	store  job.Store
	app    *compute.App
	engine *engine.Engine
	now    time.Time
}

// all takes all jobs over. An error names the job.
func (t *takeover) all(ctx context.Context, old []oldJob, to *newcomer) error {
	for i := range old {
		if err := t.one(ctx, &old[i], to); err != nil {
			return fmt.Errorf("job %d: %w", old[i].id, err)
		}
	}
	return nil
}

// one takes a job over, or counts it, unless it is here already.
func (t *takeover) one(ctx context.Context, o *oldJob, to *newcomer) error {
	word := wire.ParseStored(o.word)
	j, there, err := to.find(ctx, o)
	if err != nil {
		return err
	}
	if there {
		t.ByWord[string(word)]++
		t.There++
		return to.callOff(ctx, &j)
	}
	if word == wire.Cleaned {
		t.ByWord[string(word)]++
		t.Left++
		return nil
	}
	f, err := o.look(ctx)
	if err != nil {
		return err
	}
	w := o.will(&f, to.now)
	if to.engine != nil {
		if err := to.take(ctx, o, &w); err != nil {
			return err
		}
	}
	t.ByWord[string(word)]++
	t.Taken++
	if w.fails {
		t.Failed++
	}
	for _, n := range w.notices {
		t.notice(n)
	}
	return nil
}

// find gives the job that was made of a row before.
func (to *newcomer) find(ctx context.Context, o *oldJob) (j job.Job, there bool, err error) {
	if to.store == nil {
		return j, false, nil
	}
	page, err := to.store.List(ctx, job.Query{Kinds: []job.Kind{compute.JobKind}, Number: o.id, Limit: 1})
	if err != nil || len(page.Jobs) == 0 {
		return j, false, err
	}
	if j = page.Jobs[0]; j.Key != o.key() || j.Owner != o.owner() {
		return j, false, job.Errorf(job.Conflict, "import", j.ID, "the id %d is another job's here: import into a data directory without compute jobs of its own", o.id)
	}
	return j, true, nil
}

// take makes a job of a row.
func (to *newcomer) take(ctx context.Context, o *oldJob, w *will) error {
	u, err := to.app.Begin(ctx)
	if err != nil {
		return err
	}
	defer u.Discard()
	if w.files {
		if err := o.copy(u, w.as != nil); err != nil {
			return err
		}
	}
	j, err := u.Commit(ctx, compute.Order{
		Owner: o.owner(), User: strconv.FormatInt(o.user, 10), Service: o.service, Key: o.key(), Number: o.id, Created: w.created, Imported: w.as, By: lifecycle.Operator, Actor: "import",
		Note: "it was " + strings.ToLower(string(wire.ParseStored(o.word))) + " at job-orchestrator",
	})
	if err != nil {
		return err
	}
	if j.Number != o.id {
		return job.Errorf(job.Conflict, "import", j.ID, "it is here under the id %d", j.Number)
	}
	return to.callOff(ctx, &j)
}

// callOff ends a job that was killed at the original. An earlier import may have ended before it could.
func (to *newcomer) callOff(ctx context.Context, j *job.Job) error {
	spec, err := compute.SpecOf(j)
	if err != nil || to.engine == nil || j.Ended || spec.Imported == nil || spec.Imported.Word != compute.ImportKilled {
		return err
	}
	_, err = to.engine.Do(ctx, engine.Act{Job: j.ID, Event: compute.Cancel, By: lifecycle.Operator, Actor: "import", Note: "it was killed at the original"})
	return err
}

func (c *commands) printTakeover(t *takeover, dry bool) error {
	if c.Out.Mode == cli.ModeJSON {
		return c.Out.JSON(t)
	}
	for _, n := range t.Notices {
		c.Out.Line("%s", n)
	}
	if t.Unsaid > 0 {
		c.Out.Line("... and %d more", t.Unsaid)
	}
	taken := "taken over"
	if dry {
		taken = "would be taken over"
	}
	rows := [][2]string{
		{taken, strconv.Itoa(t.Taken)}, {"  lost, or without files", strconv.Itoa(t.Failed)}, {"here already", strconv.Itoa(t.There)}, {"left out (cleaned)", strconv.Itoa(t.Left)},
	}
	for _, s := range wire.Statuses() {
		if n := t.ByWord[string(s)]; n > 0 {
			rows = append(rows, [2]string{"  " + string(s), strconv.Itoa(n)})
		}
	}
	return c.Out.Sheet(rows)
}
