package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	ingestcli "github.com/stagepost/stagepost/app/ingest/cli"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	example "github.com/stagepost/stagepost/examples/ingest"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (c *commands) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show ingest, compute and archives at work",
		Long: `Starts a server on a fresh data directory and ingests a batch of twelve objects from a small web site. When some of them are stored and one is being
fetched, the server process is killed (SIGKILL); a new one finishes the batch. Two objects fail, because one file is wrong and one is missing: the demo shows
why, corrects the files, and retries. Then three users run scripts: one exits with 3, one uses more memory than it may, one is cancelled. Last, a course of a Moodle is
archived in two storage locations, with a time stamp. It takes about ten seconds and keeps the data directory.

If the demo is interrupted or killed, stagepost serve --data DIR continues where it stopped; stagepost demo site --data DIR serves the web site to it,
and stagepost demo campus --data DIR the Moodle.

The data directory is ./demo-data-1, or the next number that does not exist, unless --data names one.`,
		Example: "  stagepost demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			dir, err := c.demoDir()
			if err != nil {
				return err
			}
			runtime.LockOSThread() // see endsWithParent
			defer runtime.UnlockOSThread()
			if c.Out.Mode == cli.ModePlain {
				c.Out.Mode = cli.ModeTable // the demo prints the same to a pipe
			}
			d := &demo{commands: c, dir: dir, name: nameOf(dir), errs: c.Err}
			err = d.run(ctx)
			if err != nil && ctx.Err() != nil {
				d.line("interrupted; to continue: stagepost serve --data %s", d.name)
				d.line("and in another terminal: stagepost demo site --data %s", d.name)
				return nil
			}
			return err
		},
	}
	cmd.AddCommand(c.demoSite(), c.demoCampus())
	return cmd
}

// demoSite serves the web site of a demo to a server that continues it.
func (c *commands) demoSite() *cobra.Command {
	return &cobra.Command{
		Use:   "site",
		Short: "Serve the web site of a demo",
		Long: "Serves the web site of a demo at its address until SIGINT or SIGTERM, so that a server on the data\n" +
			"directory can fetch the files.",
		Example: "  stagepost demo site --data demo-data-1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			site, err := RestoreDemo(c.Settings.Data)
			if err != nil {
				return err
			}
			if site == nil {
				return cli.Usagef("%s is not the data directory of a demo: name one with --data DIR", c.Settings.Data)
			}
			c.Out.Line("the web site of the demo in %s", c.Settings.Data)
			<-ctx.Done()
			return site.Close()
		},
	}
}

// demoDir gives the directory that --data names, or the next ./demo-data-<n> that does not exist. It must not have
// been used.
func (c *commands) demoDir() (string, error) {
	if c.Settings.Origin["data"] != "default" {
		used, err := os.ReadDir(c.Settings.Data)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if len(used) > 0 {
			return "", cli.Usagef("%s is not empty: a demo needs a fresh directory "+
				"(stagepost serve --data %s continues an old one)",
				c.Settings.Data, c.Settings.Data)
		}
		return filepath.Abs(c.Settings.Data)
	}
	for n := 1; ; n++ {
		dir, err := filepath.Abs(fmt.Sprintf("demo-data-%d", n))
		if err != nil {
			return "", err
		}
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return dir, nil
		} else if err != nil {
			return "", err
		}
	}
}

// startError adds the next step to an error of the first files of a demo.
func startError(dir string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return cli.Usagef("%w (stagepost demo --data DIR names a directory that this user can write)", err)
	case job.IsFull(err):
		return fmt.Errorf("storage full: a demo writes 100 MiB to %s: %w; free space, or name another directory with "+
			"--data DIR", dir, err)
	}
	return err
}

// nameOf gives a directory as a person in the current directory writes it.
func nameOf(dir string) string {
	here, err := os.Getwd()
	if err != nil {
		return dir
	}
	if name, err := filepath.Rel(here, dir); err == nil && filepath.IsLocal(name) {
		return name
	}
	return dir
}

// demo is one run of the demo.
type demo struct {
	*commands
	dir     string
	name    string // of the directory, for people
	errs    io.Writer
	service []string // flags of the server for the users' scripts
	server  *process
	gate    *gate
	api     *client.Client
	tier    string // of the sandbox
	batch   job.ID
}

func (d *demo) run(ctx context.Context) (err error) {
	began := time.Now()
	if err := makeDemo(d.dir); err != nil {
		return startError(d.name, err)
	}
	site, err := openSite(d.dir)
	if err != nil {
		return err
	}
	d.gate = newGate(site.root.FS())
	site.serve(d.gate)
	defer func() { err = errors.Join(err, site.Close()) }()
	campus, err := openCampus(d.dir, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, campus.Close()) }()
	if err := errors.Join(campus.configure(d.dir), d.configure("")); err != nil {
		return err
	}
	if err := d.services(); err != nil {
		return err
	}
	if err := d.serve(ctx); err != nil {
		return err
	}
	defer func() { d.api.Close(); err = errors.Join(err, d.server.close()) }()
	if err := d.confined(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{d.crash, d.correct, d.fetch, d.compute, d.archive} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	d.where(time.Since(began))
	return nil
}

// configure writes stagepost.yaml of the data directory. The histories get no time stamps: the only authority is that
// of the campus, which ends with the demo.
func (d *demo) configure(more string) error {
	text := "anchor:\n  every: \"off\"\n" + more
	return durable.Replace(filepath.Join(d.dir, "stagepost.yaml"), []byte(text))
}

// serve starts a server and shows its address.
func (d *demo) serve(ctx context.Context) (err error) {
	d.command("serve --data %s", d.name)
	server, err := d.start(ctx)
	if err != nil {
		return err
	}
	if d.api != nil {
		d.api.Close()
	}
	d.server = server
	d.line("Process %d answers at %s.", d.server.Process.Pid, d.server.URL)
	d.api, err = client.New(d.server.URL, client.Options{Agent: "stagepost/" + build.Version()})
	return err
}

// errEnough ends the watching of a job that came as far as was waited for.
var errEnough = errors.New("it is as far as that")

// enough is how many objects have ended when the server is killed.
const enough = 4

// crash submits the batch, kills the server while the film is being fetched, and has another one finish.
func (d *demo) crash(ctx context.Context) error {
	if err := d.submit(ctx); err != nil {
		return err
	}
	select {
	case <-d.gate.half:
	case <-d.server.left:
		return errors.New("the server ended by itself")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ended := 0
	err := d.api.Watch(ctx, d.batch, 0, func(u client.Update) error {
		if u.Job != nil && u.Job.Children.Created()-u.Job.Children.Open >= enough {
			ended = u.Job.Children.Created() - u.Job.Children.Open
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return errors.Join(errors.New("the batch ended before the server was killed"), err)
	}
	d.line("%d of %d objects have ended; half of %s is fetched.", ended, example.Objects, film)
	d.line("%s", d.paint("31;1", fmt.Sprintf("$ kill -9 %d", d.server.Process.Pid)))
	if err := d.server.kill(); err != nil {
		return err
	}
	close(d.gate.opened)
	d.line("The server is gone. Another one continues with what was not finished.")
	if err := d.serve(ctx); err != nil {
		return err
	}
	d.command("watch %s", d.batch)
	return d.api.Watch(ctx, d.batch, 0, func(client.Update) error { return nil })
}

// submit submits the batch manifest of the web site.
func (d *demo) submit(ctx context.Context) error {
	f, err := os.Open(filepath.Join(d.dir, siteName, "batch.checkm"))
	if err != nil {
		return err
	}
	defer f.Close()
	d.line("")
	d.command("submit batch.checkm --profile %s", demoProfile)
	j, err := d.api.Submit(ctx, client.Submission{
		Profile: demoProfile, Submitter: "demo", Filename: "batch.checkm", Notification: "you@example.org",
		Key: "demo", Note: "the demo's batch",
	}, f)
	if err != nil {
		return err
	}
	d.batch = j.ID
	d.line("%s: %d objects, fetched from a depositor's web site", j.ID, example.Objects)
	return nil
}

// report gives the report of the batch, which must have so many completed objects.
func (d *demo) report(ctx context.Context, completed int) (r report.Batch, err error) {
	data, err := d.api.BatchReport(ctx, d.batch, false)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && (r.Completed != completed || r.Completed+r.Failed != example.Objects) {
		err = fmt.Errorf("%d objects are stored and %d failed; %d were to be stored", r.Completed, r.Failed, completed)
	}
	return r, err
}

// correct shows why an object failed, corrects the files, and retries.
func (d *demo) correct(ctx context.Context) error {
	r, err := d.report(ctx, example.Objects-example.Broken)
	if err != nil {
		return err
	}
	d.line("All objects have ended: %d are stored, %d failed.", r.Completed, r.Failed)
	var failed []job.ID
	for _, j := range r.Jobs {
		if j.Outcome != lifecycle.OK {
			failed = append(failed, j.Job)
		}
	}
	if err := d.why(ctx, failed[0]); err != nil {
		return err
	}
	names, err := example.Repair(filepath.Join(d.dir, siteName))
	if err != nil {
		return err
	}
	d.line("")
	d.line("The depositor corrects %s.", strings.Join(names, " and "))
	d.command("retry %s", strings.Trim(fmt.Sprint(failed), "[]"))
	for _, id := range failed {
		if _, err := d.api.Do(ctx, id, record.Retry, client.Act{Actor: "demo",
			Note: "the file is correct now"}); err != nil {
			return err
		}
	}
	for _, id := range failed {
		if err := d.api.Watch(ctx, id, 0, func(client.Update) error { return nil }); err != nil {
			return err
		}
	}
	d.command("ingest update %s", d.batch)
	if _, err := d.api.Do(ctx, d.batch, record.Update, client.Act{Actor: "demo",
		Note: "all files are correct"}); err != nil {
		return err
	}
	if err := d.api.Watch(ctx, d.batch, 0, func(client.Update) error { return nil }); err != nil {
		return err
	}
	if r, err = d.report(ctx, example.Objects); err == nil {
		d.line("%s", d.paint("32",
			fmt.Sprintf("All %d objects are stored. The depositor gets a second report by mail.", r.Completed)))
	}
	return err
}

var colored = regexp.MustCompile("\x1b\\[[0-9;]*m")

// mostOfWhy is how many lines of an explanation are shown, so that the demo fits on a screen.
const mostOfWhy = 20

// why shows what the command why prints on a terminal.
func (d *demo) why(ctx context.Context, id job.ID) error {
	d.line("")
	d.command("why %s", id)
	x, err := d.api.Why(ctx, id, time.Time{})
	if err != nil {
		return err
	}
	var text bytes.Buffer
	terminal := *d.commands
	call := *d.Call
	call.Out = &cli.Printer{Writer: &text, Mode: cli.ModeTable, Terminal: true, Width: columns}
	terminal.Call = &call
	if err := terminal.Explain(&x); err != nil {
		return err
	}
	lines := strings.SplitAfter(strings.TrimSpace(text.String()), "\n")
	if len(lines) > mostOfWhy {
		lines = append(lines[:mostOfWhy-1], "...")
	}
	shown := strings.Join(lines, "") + "\n"
	if !d.Out.Terminal {
		shown = colored.ReplaceAllString(shown, "")
	}
	return d.Out.Own(shown)
}

// fetch fetches a stored object as a bag and validates it.
func (d *demo) fetch(ctx context.Context) error {
	r, err := d.report(ctx, example.Objects)
	if err != nil {
		return err
	}
	d.command("ingest access %s --format bag-zip --out bag.zip", r.Jobs[0].ARK)
	call := *d.Call
	call.Out, call.Server = &cli.Printer{Writer: io.Discard, Mode: cli.ModeTable}, d.api
	err = ingestcli.GetPackage(ctx, &call, client.AccessRequest{Object: r.Jobs[0].ARK, Format: "bag-zip"},
		filepath.Join(d.dir, bagName), false, true)
	if err == nil {
		d.line("bag.zip has the object as a BagIt package; it was validated.")
	}
	return err
}

// columns is the width of the demo's lines.
const columns = 80

// line prints a line.
func (d *demo) line(format string, args ...any) {
	_ = d.Out.Own(fmt.Sprintf(format, args...) + "\n") // what it prints are the demo's own words
}

// command shows a command of the program.
func (d *demo) command(format string, args ...any) {
	d.line("%s", d.paint("1", "$ stagepost "+fmt.Sprintf(format, args...)))
}

// paint colors a text on a terminal.
func (d *demo) paint(color, text string) string {
	if !d.Out.Terminal || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// where shows where the results are.
func (d *demo) where(took time.Duration) {
	d.line("")
	d.line("It took %s. In %s:", took.Round(100*time.Millisecond), d.name)
	for _, one := range [][2]string{
		{"storage", "the objects, an OCFL 1.1 storage root"},
		{"stagepost.db", "jobs and their histories (SQLite)"},
		{"mail, compute", "mails to the depositor; files and results of the scripts"},
		{campusName, "the Moodle, and the storage locations of its archive"},
	} {
		d.line("  %-14s%s", one[0], one[1])
	}
	d.line("To go on: stagepost serve --data %s", d.name)
}
