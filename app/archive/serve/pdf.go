package archiveserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/api"
	archiveconfig "github.com/stagepost/stagepost/app/archive/config"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/quizprinter"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// Below the directory of the application.
const (
	pdfName      = "pdf"      // documents and PDF files of jobs
	printingName = "printing" // working files of the worker
)

// claimEvery is the longest time until the worker finds a job that is due again.
const claimEvery = 5 * time.Second

// printers are the jobs that print PDF files, and the worker of this server.
type printers struct {
	*pdf.App
	box      *sandbox.Sandbox // nil: there is no worker
	worker   *pdf.Worker      // nil: there is none
	claims   *claims
	callback *quizprinter.Moodle // the Moodle that existing quiz archive workers see
	more     []*pdf.Worker       // print by existing quiz archive workers
}

// prints reports whether a worker prints for this server.
func (p *printers) prints(s *Settings) bool { return p.worker != nil || len(p.more) > 0 || s.PDFRemote }

// add adds a worker for each existing quiz archive worker of the configuration.
func (p *printers) add(all []archiveconfig.Printer, temp string, log *slog.Logger) error {
	for i, one := range all {
		o := quizprinter.Options{URL: one.URL, Callback: one.Callback + sitePath, Moodle: p.callback}
		if one.TokenFile != "" {
			var err error
			if o.Token, err = secretfile.Read(one.TokenFile); err != nil {
				return cli.Usage(err)
			}
		}
		printer, err := quizprinter.New(o)
		if err != nil {
			return cli.Usage(err)
		}
		p.more = append(p.more, pdf.NewWorker(p.claims, p.App, printer, pdf.WorkerOptions{
			Name: fmt.Sprintf("quiz-archive-worker-%d", i+1), Parallel: cmp.Or(one.Parallel, 4),
			Temp: filepath.Join(temp, fmt.Sprint(i+1)), Held: p.Held, Log: log,
		}))
	}
	return nil
}

// openPrinters opens the jobs, whose files are in dir, and a worker that prints several files at once; zero: none. temp
// is for working files of this process.
func openPrinters(dir, temp string, workers int, log *slog.Logger) (*printers, error) {
	if err := os.RemoveAll(temp); err != nil { // an earlier process left it
		return nil, err
	}
	c := &claims{wake: make(chan struct{}, 1)}
	jobs, err := pdf.Open(filepath.Join(dir, pdfName), pdf.Settings{Ordered: c.ordered})
	if err != nil {
		return nil, err
	}
	p := &printers{App: jobs, claims: c, callback: quizprinter.NewMoodle()}
	if workers <= 0 {
		return p, nil
	}
	p.box, err = sandbox.Open(context.Background(), sandbox.Options{
		Tier: sandbox.Require, Name: "stagepost-archive-pdf", Log: log,
	})
	if err != nil {
		return nil, errors.Join(cli.Usage(fmt.Errorf("archive.pdf.workers: %w", err)), p.Close())
	}
	r, err := pdf.Find(p.box, pdf.Options{})
	if err != nil {
		return nil, errors.Join(cli.Usage(fmt.Errorf("archive.pdf.workers: %w", err)), p.Close())
	}
	p.worker = pdf.NewWorker(p.claims, jobs, r, pdf.WorkerOptions{
		Name: "server-pdf", Parallel: workers, Temp: temp, Log: log,
	})
	return p, nil
}

// Bind connects the jobs and the worker to the engine.
func (p *printers) Bind(e *engine.Engine) {
	p.claims.engine = e
	p.App.Bind(e)
}

// Close ends the programs of the worker.
func (p *printers) Close() error {
	err := p.App.Close()
	if p.box != nil {
		err = errors.Join(err, p.box.Close())
	}
	return err
}

// claims is the claim API of an engine in this process.
type claims struct {
	engine *engine.Engine
	wake   chan struct{} // has a message after an order
}

// ordered notifies the worker of this server of an order: it claims the job at once.
func (c *claims) ordered() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Claim is part of [worker.API].
func (c *claims) Claim(ctx context.Context, r api.Claim) ([]api.Leased, error) {
	end := time.NewTimer(seconds(r.Wait))
	defer end.Stop()
	again := time.NewTicker(claimEvery)
	defer again.Stop()
	for {
		jobs, err := c.engine.Remote().Claim(ctx, remote.Claim{
			Worker: r.Worker, From: r.From, N: r.N, Lease: seconds(r.Lease)})
		if err != nil || len(jobs) > 0 {
			out := make([]api.Leased, len(jobs))
			for i, j := range jobs {
				out[i] = api.LeasedOf(&j)
			}
			return out, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-end.C:
			return nil, nil
		case <-again.C:
		case <-c.wake:
		}
	}
}

// Renew is part of [worker.API].
func (c *claims) Renew(ctx context.Context, r api.Renewal) ([]job.Lease, error) {
	return c.engine.Remote().Renew(ctx, r.Worker, r.Leases, seconds(r.Lease))
}

// Report is part of [worker.API]. The error is that of the first report that is refused.
func (c *claims) Report(ctx context.Context, r api.Reports) ([]api.Reported, error) {
	return c.reported(ctx, &r, false)
}

// Update is part of [worker.API].
func (c *claims) Update(ctx context.Context, r api.Reports) ([]api.Reported, error) {
	return c.reported(ctx, &r, true)
}

func (c *claims) reported(ctx context.Context, r *api.Reports, keep bool) ([]api.Reported, error) {
	var out []api.Reported
	for i := range r.Reports {
		done, err := c.one(ctx, r.Worker, &r.Reports[i], keep)
		if err != nil {
			return nil, err
		}
		out = append(out, api.Reported{Job: done.ID, State: done.State, Outcome: done.Outcome, Ended: done.Ended})
	}
	return out, nil
}

func (c *claims) one(ctx context.Context, worker string, r *api.Report, keep bool) (job.Job, error) {
	j, err := c.engine.Store().Get(ctx, r.Job)
	if err != nil {
		return j, err
	}
	report, err := server.ReportOf(r, keep)
	if err != nil {
		return j, err
	}
	results, err := c.engine.Remote().Report(ctx, worker, []job.Job{j}, []remote.Report{report})
	if err != nil {
		return j, err
	}
	return results[0].Job, results[0].Err
}

// WorkerJob is part of [worker.API].
func (c *claims) WorkerJob(ctx context.Context, l api.WorkerLease) (api.WorkerJob, error) {
	j, err := c.engine.Store().Get(ctx, l.Job)
	if err == nil && (j.Epoch != l.Epoch || j.Worker != l.Worker) {
		err = job.Errorf(job.Stale, "read", l.Job, "claim %d of %s is over", l.Epoch, l.Worker)
	}
	if err != nil {
		return api.WorkerJob{}, err
	}
	tasks, err := c.engine.Store().Tasks(ctx, l.Job)
	return api.WorkerJob{Job: api.LeasedOf(&j), Tasks: tasks}, err
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
