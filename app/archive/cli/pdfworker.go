package archivecli

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// pdfSettings are the flags of stagepost archive pdf-worker.
type pdfSettings struct {
	name, temp string
	parallel   int
	grace      time.Duration
}

// pdfWorker is the command of a worker on another machine than the server.
func (c *commands) pdfWorker() *cobra.Command {
	s := &pdfSettings{}
	cmd := &cobra.Command{
		Use:   "pdf-worker",
		Short: "Print PDF files on this machine, for a server",
		Long: `Claims the jobs of a server that print PDF files, prints them with Chromium and Ghostscript in a sandbox, and
sends the files back. The server needs archive.pdf.remote. With tokens on the server, the worker has one of the role
worker for archive.pdf/Rendering.

Any number of workers may serve one server. When one crashes, another one continues its jobs after a minute. On SIGINT
or SIGTERM the worker claims nothing new, and abandons after the time of --grace what is not printed by then. A second
signal ends it at once.`,
		Example: "  stagepost admin token new --owner printer-1 --role worker --work archive.pdf/Rendering " +
			"/srv/stagepost/tokens > printer-1.token\n" +
			"  stagepost archive pdf-worker --server https://jobs.example.org --token-file printer-1.token",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runPDFWorker(cmd, s) },
	}
	f := cmd.Flags()
	f.StringVar(&s.name, "name", "",
		"the name of this worker, where the server has no tokens; defaults to that of the machine")
	f.IntVar(&s.parallel, "parallel", 0,
		"PDF files that are printed at once; defaults to half of the number of processors")
	f.StringVar(&s.temp, "temp", "", "directory of working files; defaults to that of the system")
	cli.DurationFlag(f, &s.grace, "grace", 30*time.Second, "off",
		"that files get which are being printed when the worker stops; off: they are abandoned at once")
	return cmd
}

// runPDFWorker works until a signal comes or the server refuses the worker.
func (c *commands) runPDFWorker(cmd *cobra.Command, s *pdfSettings) (err error) {
	ctx, stop := cli.UntilSignal(cmd.Context())
	defer stop()
	api, err := c.API()
	if err != nil {
		return err
	}
	defer api.Close()
	host, _ := os.Hostname() // the default is enough without
	s.name = cmp.Or(s.name, "pdf-"+strings.ToLower(cmp.Or(host, "worker")))
	temp, remove, err := cli.TempDir(s.temp, "stagepost-pdf-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	log := slog.New(slog.NewTextHandler(c.Err, nil))
	box, err := sandbox.Open(ctx, sandbox.Options{Tier: sandbox.Require, Name: "stagepost-" + s.name, Log: log})
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	printer, err := pdf.Find(box, pdf.Options{})
	if err != nil {
		return cli.Usage(err)
	}
	if c.Out.Mode == cli.ModeJSON {
		err = c.Out.JSON(map[string]string{"name": s.name, "server": api.Base(), "sandbox": box.Tier()})
	} else {
		_, err = fmt.Fprintf(c.Out, "stagepost pdf-worker %s: server %s, sandbox %s\n", s.name, api.Base(), box.Tier())
	}
	if err != nil {
		return err
	}
	return pdf.NewWorker(api, pdf.Remote(api, s.name), printer, pdf.WorkerOptions{
		Name: s.name, Parallel: s.parallel, Grace: s.grace, Temp: temp, Log: log,
	}).Run(ctx)
}
