package orchestratorcli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/takeover"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	computeserve "github.com/stagepost/stagepost/app/compute/serve"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
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

What a job's original client had not reported by then is not known here: jobs that were at a client become Failed with the cause lost, and their users submit them again.
Queued jobs whose files are gone become Invalid, completed ones whose results are gone or damaged Failed. Cleaned jobs are left out: only their state remains.
Jobs keep the time of their creation; when one ended is not recorded by the original. Files are kept for compute.keep from the server's next start on.

May be repeated: a job that is here already is left as it is, and counted as such. The original's files are only read. With --dry-run they are read in the same way, and
the numbers are those of the import.`,
		Example: "  stagepost compute import --data /srv/stagepost --database /srv/orchestrator/db.sqlite " +
			"--compute-services services.yaml --dry-run",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.settings.Services = services
			done, err := c.takeOver(cmd.Context(), database, dry)
			if done != nil {
				err = errors.Join(err, c.printTakeover(done, dry))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&database, "database", "",
		"the original's database, DB_PATH; its files are found by the paths in it")
	cmd.Flags().StringVar(&services, "compute-services", "",
		"file of the services that the server will have (see serve)")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would be taken over")
	_ = cmd.MarkFlagRequired("database")
	return cmd
}

// takeOver reads the original's database and makes jobs of its rows, in the order of their ids.
func (c *commands) takeOver(ctx context.Context, database string, dry bool) (done *takeover.Report, err error) {
	if err := c.Settings.OwnStore("import into an empty data directory, then copy the jobs with stagepost migrate " +
		"into an empty database"); err != nil {
		return nil, err
	}
	if _, err := os.Stat(database); err != nil {
		return nil, cli.Usage(err)
	}
	old, err := takeover.Read(database)
	if err != nil {
		return nil, err
	}
	all, _, err := computeserve.ServiceConfig(c.settings)
	if err != nil {
		return nil, err
	}
	known := all.Compute()
	if missing := old.Unserved(known); len(missing) > 0 {
		return nil, cli.Usagef("services that the jobs name and --compute-services does not: %s",
			strings.Join(missing, ", "))
	}
	dir, err := filepath.Abs(c.Settings.Data)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "stagepost.db")); dry && errors.Is(err, fs.ErrNotExist) {
		// nothing is here, and nothing is to be
		return old.Into(ctx, &takeover.Target{})
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(dir, sqlite.Options{NoLog: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	to := &takeover.Target{Store: store}
	if dry {
		return old.Into(ctx, to)
	}
	if to.App, err = compute.New(compute.Options{Dir: dir, Services: known}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, to.App.Close()) }()
	if to.Engine, err = engine.New(store, to.App.Works(), engine.Options{}); err != nil {
		return nil, err
	}
	to.App.Bind(to.Engine)
	return old.Into(ctx, to)
}

func (c *commands) printTakeover(t *takeover.Report, dry bool) error {
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
		{taken, strconv.Itoa(t.Taken)}, {"  lost, or without files", strconv.Itoa(t.Failed)}, {"here already",
			strconv.Itoa(t.There)}, {"left out (cleaned)", strconv.Itoa(t.Left)},
	}
	for _, s := range wire.Statuses() {
		if n := t.ByWord[string(s)]; n > 0 {
			rows = append(rows, [2]string{"  " + string(s), strconv.Itoa(n)})
		}
	}
	return c.Out.Sheet(rows)
}
