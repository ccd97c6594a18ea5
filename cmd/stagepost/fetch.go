package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/job"
)

func (c *cli) fetch() *cobra.Command {
	var out string
	var status bool
	cmd := &cobra.Command{
		Use:   "fetch TOKEN",
		Short: "Fetch the package of a token",
		Long: `Fetches the package that stagepost access asked for, once it is ready; until then it waits. A download that breaks off is taken up where it was.
With --status it only tells how far the package is.`,
		Example: "  stagepost fetch 01jb3...q7 --out map.zip\n  stagepost fetch 01jb3...q7 --status",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.patient(cmd)
			defer cancel()
			api, err := c.api()
			if err != nil {
				return err
			}
			a, err := api.Access(ctx, args[0])
			if err != nil {
				return err
			}
			if status {
				return c.printAccess(&a)
			}
			if out == "" {
				if out, err = safename.Clean(a.File); err != nil || out != filepath.Base(out) {
					return job.Errorf(job.Internal, "fetch", "", "the server calls the package %q: name a file by --out", a.File)
				}
			}
			if err := free(out); err != nil {
				return err
			}
			if a, err = c.settled(ctx, api, &a); err != nil {
				return err
			}
			return c.fetchTo(ctx, api, &a, out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the file; - is standard output. Defaults to the package's own name, here")
	cmd.Flags().BoolVar(&status, "status", false, "only tell how far it is")
	return cmd
}

// settled waits until a package is ready, without a word.
func (c *cli) settled(ctx context.Context, api *client.Client, a *client.Access) (client.Access, error) {
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
		err = failedJob{last}
	}
	return now, err
}

// fetchTo fetches a package that is ready into a file, which appears when it is whole.
func (c *cli) fetchTo(ctx context.Context, api *client.Client, a *client.Access, out string) error {
	d := &download{api: api, about: a, bar: &bar{out: c.out}}
	if out == "-" {
		d.bar.out = &printer{Writer: io.Discard, mode: modePlain}
		return d.once(ctx, c.out)
	}
	digest := strings.Trim(a.ETag, `"`)
	part := fmt.Sprintf("%s.%.12s.part", out, digest) // only the same package is taken up again
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	err = d.all(ctx, f)
	d.bar.end()
	if err != nil && d.done > 0 && (client.ProblemOf(err) == nil || job.KindOf(err) == job.Unavailable) {
		err = fmt.Errorf("%d of %d bytes are in %s, and the same command goes on from there: %w", d.done, d.about.Size, part, err)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, out); errors.Is(err, fs.ErrNotExist) {
		return job.Errorf(job.Conflict, "fetch", "", "another command that fetched the same package into %s was faster", out)
	} else if err != nil {
		return err
	}
	if c.out.mode == modeJSON {
		return nil
	}
	return c.out.sheet([][2]string{{"fetched", out}})
}

// download is a package on its way.
type download struct {
	api   *client.Client
	about *client.Access
	bar   *bar
	done  int64

	open func(ctx context.Context, from int64) (body io.ReadCloser, start int64, err error) // of something else than a package; defaults to the package of the token
}

// Bounds of the patience with a connection that breaks: so many times in a row without a byte, and the longest pause between.
const (
	maxBroken = 6
	maxPause  = 10 * time.Second
)

// all fetches what a file lacks, again and again while the connection breaks. What the server says is final.
func (d *download) all(ctx context.Context, f *os.File) error {
	broken := 0
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		end, err := d.have(f)
		if err != nil || end == d.about.Size {
			return err
		}
		if err = d.some(ctx, f); err == nil && d.done != d.about.Size {
			err = io.ErrUnexpectedEOF
		}
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case client.ProblemOf(err) != nil && job.KindOf(err) != job.Unavailable:
			return err
		}
		if broken++; d.done > end {
			broken, pause = 0, 100*time.Millisecond
		}
		if broken == maxBroken {
			return brokenOff(err)
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		case <-wait.C:
		}
	}
}

// brokenOff is the error of a connection that the server breaks off again and again. One that does not come about keeps its own words.
func brokenOff(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return job.Errorf(job.Unavailable, "fetch", "", "the server broke the download off %d times at the same place; if storage has changed since the package was made, its log says "+
		"so, and the object is to be asked for again", maxBroken)
}

// have gives how much of the package a file has, and goes on from there. More than there can be is of no use.
func (d *download) have(f *os.File) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && end > d.about.Size {
		err = f.Truncate(0)
		if err == nil {
			end, err = f.Seek(0, io.SeekStart)
		}
	}
	d.done = end
	return end, err
}

// some fetches from the end of a file on.
func (d *download) some(ctx context.Context, f *os.File) error {
	open := d.open
	if open == nil {
		open = func(ctx context.Context, from int64) (io.ReadCloser, int64, error) {
			return d.api.FetchAccess(ctx, d.about.Token, d.about.ETag, from)
		}
	}
	body, start, err := open(ctx, d.done)
	if err != nil {
		return err
	}
	defer body.Close()
	if start != d.done { // another package by now
		if err := f.Truncate(start); err != nil {
			return err
		}
		if _, err := f.Seek(start, io.SeekStart); err != nil {
			return err
		}
		d.done = start
	}
	return d.copy(f, body)
}

// once fetches a package in one go: what was passed on cannot be taken back.
func (d *download) once(ctx context.Context, w io.Writer) error {
	body, _, err := d.api.FetchAccess(ctx, d.about.Token, d.about.ETag, 0)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := d.copy(w, body); err != nil {
		return err
	}
	if d.done != d.about.Size {
		return job.Errorf(job.Unavailable, "fetch", "", "%d bytes came of %d", d.done, d.about.Size)
	}
	return nil
}

func (d *download) copy(w io.Writer, body io.Reader) error {
	buffer := make([]byte, 256<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, err := io.Copy(w, bytes.NewReader(buffer[:n])); err != nil {
				return err
			}
			step := d.about.Size/20 + 1
			if shown := d.done / step; (d.done+int64(n))/step > shown || d.done+int64(n) == d.about.Size {
				if err := d.bar.show(d.done+int64(n), d.about.Size, "fetching "+d.about.File); err != nil {
					return err
				}
			}
			d.done += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
