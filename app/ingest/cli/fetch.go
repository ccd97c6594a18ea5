package ingestcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/job"
)

func (c *commands) fetch() *cobra.Command {
	var out string
	var status bool
	cmd := &cobra.Command{
		Use:   "fetch TOKEN",
		Short: "Fetch the package of a token",
		Long: `Fetches the package that stagepost ingest access asked for, once it is ready; until then it waits. A download that breaks off is taken up where it was.
With --status it only prints the state of the package.`,
		Example: "  stagepost ingest fetch 01jb3...q7 --out map.zip\n  stagepost ingest fetch 01jb3...q7 --status",
		Args:    cobra.ExactArgs(1),
		RunE: c.Requests(func(ctx context.Context, api *client.Client, _ *cobra.Command, args []string) error {
			a, err := api.Access(ctx, args[0])
			if err != nil {
				return err
			}
			if status {
				return c.printAccess(&a)
			}
			if out == "" {
				if out, err = safename.Clean(a.File); err != nil || out != filepath.Base(out) {
					return job.Errorf(job.Internal, "fetch", "",
						"the server calls the package %q: name a file by --out", a.File)
				}
			}
			if err := cli.Free(out); err != nil {
				return err
			}
			if a, err = c.settled(ctx, api, &a); err != nil {
				return err
			}
			return c.fetchTo(ctx, api, &a, out)
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "the file; - is standard output. Defaults to the package's own name, here")
	cmd.Flags().BoolVar(&status, "status", false, "only print the state of the package")
	return cmd
}

// settled waits until a package is ready, without a word.
func (c *commands) settled(ctx context.Context, api *client.Client, a *client.Access) (client.Access, error) {
	var last client.Job
	err := api.Watch(ctx, a.Job, 0, func(u client.Update) error {
		if u.Job != nil {
			last = *u.Job
		}
		return nil
	})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return *a, err
	}
	now, err := api.Access(ctx, a.Token)
	if err == nil && now.Status != 200 {
		err = cli.FailedJob{Job: last}
	}
	return now, err
}

// fetchTo fetches a package that is ready into a file, which appears when it is whole.
func (c *commands) fetchTo(ctx context.Context, api *client.Client, a *client.Access, out string) error {
	d := &cli.Download{API: api, About: a, Bar: &cli.Bar{Out: c.Out}}
	if out == "-" {
		d.Bar.Out = &cli.Printer{Writer: io.Discard, Mode: cli.ModePlain}
		return d.Once(ctx, c.Out)
	}
	digest := strings.Trim(a.ETag, `"`)
	part := fmt.Sprintf("%s.%.12s.part", out, digest) // only the same package is taken up again
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	err = d.All(ctx, f)
	d.Bar.End()
	if err != nil && d.Done > 0 && (client.ProblemOf(err) == nil || job.KindOf(err) == job.Unavailable) {
		err = fmt.Errorf("%d of %d bytes are in %s, and the same command goes on from there: %w", d.Done, d.About.Size,
			part, err)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, out); errors.Is(err, fs.ErrNotExist) {
		return job.Errorf(job.Conflict, "fetch", "", "another command that fetched the same package into %s was faster",
			out)
	} else if err != nil {
		return err
	}
	if c.Out.Mode == cli.ModeJSON {
		return nil
	}
	return c.Out.Sheet([][2]string{{"fetched", out}})
}
