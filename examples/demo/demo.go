package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/ingest"
	ingestcli "github.com/stagepost/stagepost/app/ingest/cli"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/cli/jobs"
	"github.com/stagepost/stagepost/client"
	example "github.com/stagepost/stagepost/examples/ingest"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (c *commands) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Ingest twelve objects before your eyes, two of which need help, and run three users' jobs",
		Long: `Starts a server on a fresh data directory, serves a small web site to it, and ingests a batch of twelve objects from there: files of several
kinds, one object of 200 files, one whose file is wrong and one whose file is missing. It shows the report, asks why one of them failed, puts the right
files in place, and retries. Then three users hand in jobs for a service that runs two at once for each: one exits with 3, one uses more memory than it may, one is
cancelled while it runs. It takes some seconds and leaves the data directory for you to look at.

If it is interrupted or killed, stagepost serve --data DIR continues where it stopped; stagepost demo site --data DIR serves the web site to it.

The data directory is ./demo-data-1, or the next number that is free, unless --data names one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			dir, err := c.demoDir()
			if err != nil {
				return err
			}
			d := &demo{commands: c, dir: dir}
			err = d.run(ctx)
			if err != nil && ctx.Err() != nil {
				c.Out.Line("interrupted; to continue: stagepost serve --data %s", dir)
				c.Out.Line("and in another terminal: stagepost demo site --data %s", dir)
				return nil
			}
			return err
		},
	}
	cmd.AddCommand(c.demoSite())
	return cmd
}

// demoSite serves the web site of a demo to a server that continues it.
func (c *commands) demoSite() *cobra.Command {
	return &cobra.Command{
		Use:     "site",
		Short:   "Serve the web site of a demo",
		Long:    "Serves the web site of a demo at its address until SIGINT or SIGTERM, so that a server on the data directory can fetch the files.",
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

// demoDir gives the directory that --data names, or the next free ./demo-data-<n>. It must not have been used.
func (c *commands) demoDir() (string, error) {
	if c.Settings.Origin["data"] != "default" {
		used, err := os.ReadDir(c.Settings.Data)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if len(used) > 0 {
			return "", cli.Usagef("%s is not empty: a demo begins with a fresh directory (stagepost serve --data %s continues an old one)", c.Settings.Data, c.Settings.Data)
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

// demo is one run of the demo.
type demo struct {
	*commands
	dir   string
	api   *client.Client
	batch job.ID
}

func (d *demo) run(ctx context.Context) (err error) {
	began := time.Now()
	d.Out.Line("Building a depositor's web site in %s ...", filepath.Join(d.dir, siteName))
	if err := makeDemo(d.dir); err != nil {
		return err
	}
	site, err := RestoreDemo(d.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	s, err := d.settle()
	if err != nil {
		return err
	}
	log, err := host.NewLog(d.Err, s.Common, new(slog.LevelVar))
	if err != nil {
		return err
	}
	server, err := host.Start(ctx, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	if d.api, err = client.New(server.URL, client.Options{Agent: "stagepost/" + build.Version()}); err != nil {
		return err
	}
	defer d.api.Close()
	d.Out.Line("A server works on %s at %s.", d.dir, server.URL)
	if err := d.confined(server, s); err != nil {
		return err
	}
	if err := d.play(ctx); err != nil {
		return err
	}
	if err := d.compute(ctx); err != nil {
		return err
	}
	d.where(time.Since(began))
	return nil
}

// play is the story: hand in, look, mend, retry.
func (d *demo) play(ctx context.Context) error {
	if err := d.submit(ctx); err != nil {
		return err
	}
	if err := d.watch(ctx, d.batch); err != nil {
		return err
	}
	report, err := d.report(ctx)
	if err != nil {
		return err
	}
	if report.Completed != example.Objects-example.Broken || report.Failed != example.Broken {
		return fmt.Errorf("%d objects completed and %d failed; %d and %d were to be expected", report.Completed, report.Failed, example.Objects-example.Broken, example.Broken)
	}
	var failed []job.ID
	for _, j := range report.Jobs {
		if j.Outcome != lifecycle.OK {
			failed = append(failed, j.Job)
		}
	}
	d.Out.Line("")
	d.Out.Line("$ stagepost why %s", failed[0])
	x, err := d.api.Why(ctx, failed[0], time.Time{})
	if err != nil {
		return err
	}
	if err := d.Explain(&x); err != nil {
		return err
	}
	if err := d.mend(ctx, failed); err != nil {
		return err
	}
	if report, err = d.report(ctx); err != nil {
		return err
	}
	if report.Completed != example.Objects {
		return fmt.Errorf("%d of %d objects are complete after the retry", report.Completed, example.Objects)
	}
	return d.giveBack(ctx, report.Jobs[0].ARK)
}

// giveBack fetches a stored object as a bag and validates it.
func (d *demo) giveBack(ctx context.Context, ark string) error {
	d.Out.Line("")
	d.Out.Line("$ stagepost access %s --format bag-zip --out given-back.zip --check", ark)
	d.Server = d.api
	return ingestcli.GetPackage(ctx, d.Call, client.AccessRequest{Object: ark, Format: "bag-zip"}, filepath.Join(d.dir, "given-back.zip"), false, true)
}

// submit hands in the batch manifest of the site.
func (d *demo) submit(ctx context.Context) error {
	f, err := os.Open(filepath.Join(d.dir, siteName, "batch.checkm"))
	if err != nil {
		return err
	}
	defer f.Close()
	j, err := d.api.Submit(ctx, client.Submission{
		Profile: demoProfile, Submitter: "demo", Filename: "batch.checkm", Notification: "you@example.org", Key: "demo", Note: "the demo's batch",
	}, f)
	if err != nil {
		return err
	}
	d.batch = j.ID
	d.Out.Line("$ stagepost submit batch.checkm --profile %s --wait", demoProfile)
	d.Out.Line("%s", j.ID)
	return nil
}

// watch shows how a job goes on until it has ended.
func (d *demo) watch(ctx context.Context, id job.ID) error {
	bar := &cli.Bar{Out: d.Out}
	err := d.api.Watch(ctx, id, 0, func(u client.Update) error {
		if u.Event != nil {
			return nil
		}
		done, total, text := jobs.Standing(u.Job)
		return bar.Show(done, total, text)
	})
	bar.End()
	return err
}

// report prints the report as the depositor gets it by mail.
func (d *demo) report(ctx context.Context) (report.Batch, error) {
	var r report.Batch
	d.Out.Line("")
	d.Out.Line("$ stagepost report %s", d.batch)
	text, err := d.api.BatchReport(ctx, d.batch, true)
	if err != nil {
		return r, err
	}
	if _, err := fmt.Fprintf(d.Out, "%s", ingestcli.CleanLines(text)); err != nil {
		return r, err
	}
	data, err := d.api.BatchReport(ctx, d.batch, false)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(data, &r)
}

// mend puts the right files in place, retries what failed, and asks for a second report.
func (d *demo) mend(ctx context.Context, failed []job.ID) error {
	names, err := example.Repair(filepath.Join(d.dir, siteName))
	if err != nil {
		return err
	}
	d.Out.Line("")
	for _, name := range names {
		d.Out.Line("The depositor puts %s right.", name)
	}
	for _, id := range failed {
		d.Out.Line("$ stagepost retry %s && stagepost watch %s", id, id)
		if _, err := d.api.Do(ctx, id, ingest.Retry, client.Act{Actor: "demo", Note: "the file is right now"}); err != nil {
			return err
		}
		if err := d.watch(ctx, id); err != nil {
			return err
		}
	}
	d.Out.Line("$ stagepost update %s && stagepost watch %s", d.batch, d.batch)
	if _, err := d.api.Do(ctx, d.batch, ingest.Update, client.Act{Actor: "demo", Note: "all are mended"}); err != nil {
		return err
	}
	return d.watch(ctx, d.batch)
}

// where tells where everything lies.
func (d *demo) where(took time.Duration) {
	d.Out.Line("")
	d.Out.Line("It took %s. Look at:", took.Round(100*time.Millisecond))
	for _, one := range [][2]string{
		{"storage", "the objects, an OCFL 1.1 storage root"},
		{"inventory.db", "what is stored: objects, versions, files, digests (SQLite)"},
		{"stagepost.db", "jobs and their histories (SQLite)"},
		{filepath.Join("work", string(d.batch)), "the payload and the reports"},
		{"mail", "the mails that would have been sent"},
		{siteName, "the depositor's web site"},
		{"compute", "the files and results of the users' jobs"},
	} {
		d.Out.Line("  %-60s %s", filepath.Join(d.dir, one[0]), one[1])
	}
	d.Out.Line("To continue: stagepost serve --data %s", d.dir)
}

// Names of a demo below its data directory.
const (
	siteName    = "site"
	DemoFile    = "demo.json"
	demoProfile = "demo"
)

// demoRecord is what demo.json keeps: whatever finds it can bring the site back.
type demoRecord struct {
	Listen string `json:"listen"` // address of the site, which is in its manifests
}

// makeDemo builds site and profile of a demo. demo.json comes last, so that a directory that has it is complete.
func makeDemo(dir string) (err error) {
	if err := os.MkdirAll(filepath.Join(dir, "profiles"), 0o700); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0") // takes a free port, which the manifests then name
	if err != nil {
		return err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	if _, err := example.Build(filepath.Join(dir, siteName), "http://"+address); err != nil {
		return err
	}
	text := "id: " + demoProfile + "\ndescription: the demo may fetch from this machine\nowner: demo\nallow_networks: [127.0.0.0/8]\n"
	if err := os.WriteFile(filepath.Join(dir, "profiles", demoProfile+".yaml"), []byte(text), 0o600); err != nil {
		return err
	}
	record, err := json.Marshal(demoRecord{Listen: address})
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(dir, DemoFile), append(record, '\n'))
}

// RestoreDemo serves the web site of a demo again, at its old address, when dir is the data directory of a demo; else it gives nil.
func RestoreDemo(dir string) (io.Closer, error) {
	text, err := os.ReadFile(filepath.Join(dir, DemoFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var record demoRecord
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, fmt.Errorf("%s: %w", DemoFile, err)
	}
	address, err := netip.ParseAddrPort(record.Listen)
	if err != nil || !address.Addr().IsLoopback() {
		return nil, fmt.Errorf("%s: %q is no address on this machine", DemoFile, record.Listen)
	}
	root, err := os.OpenRoot(filepath.Join(dir, siteName))
	if err != nil {
		return nil, fmt.Errorf("the demo's site: %w", err)
	}
	l, err := net.Listen("tcp", record.Listen)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the demo's site: %w", err), root.Close())
	}
	s := &demoSite{root: root, http: &http.Server{Handler: http.FileServerFS(root.FS()), ReadHeaderTimeout: 5 * time.Second}, done: make(chan error, 1)}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// demoSite is the web site of a demo.
type demoSite struct {
	root *os.Root
	http *http.Server
	done chan error
}

// Close ends the site.
func (s *demoSite) Close() error {
	err := s.http.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.root.Close())
}
