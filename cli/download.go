package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// Download is a package on its way.
type Download struct {
	API   *client.Client
	About *client.Access
	Bar   *Bar
	Done  int64

	// of something else than a package; defaults to the package of the token
	Open func(ctx context.Context, from int64) (body io.ReadCloser, start int64, err error)
}

// All fetches what a file lacks, again and again while the connection breaks. An answer of the server is final.
func (d *Download) All(ctx context.Context, f *os.File) error {
	broken := 0
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		end, err := d.have(f)
		if err != nil || end == d.About.Size {
			return err
		}
		if err = d.some(ctx, f); err == nil && d.Done != d.About.Size {
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
		if broken++; d.Done > end {
			broken, pause = 0, 100*time.Millisecond
		}
		if broken == MaxBroken {
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

// brokenOff is the error of a connection that the server breaks off again and again. One that does not come about keeps
// its own words.
func brokenOff(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return job.Errorf(job.Unavailable, "fetch", "",
		"the server broke the download off %d times at the same byte; if storage has changed since the package was "+
			"made, its log reports it: request the object again", MaxBroken)
}

// have gives how much of the package a file has, and goes on from there. More than there can be is of no use.
func (d *Download) have(f *os.File) (int64, error) {
	end, err := f.Seek(0, io.SeekEnd)
	if err == nil && end > d.About.Size {
		err = f.Truncate(0)
		if err == nil {
			end, err = f.Seek(0, io.SeekStart)
		}
	}
	d.Done = end
	return end, err
}

// some fetches from the end of a file on.
func (d *Download) some(ctx context.Context, f *os.File) error {
	open := d.Open
	if open == nil {
		open = func(ctx context.Context, from int64) (io.ReadCloser, int64, error) {
			return d.API.FetchAccess(ctx, d.About.Token, d.About.ETag, from)
		}
	}
	body, start, err := open(ctx, d.Done)
	if err != nil {
		return err
	}
	defer body.Close()
	if start != d.Done { // another package by now
		if err := f.Truncate(start); err != nil {
			return err
		}
		if _, err := f.Seek(start, io.SeekStart); err != nil {
			return err
		}
		d.Done = start
	}
	return d.copy(f, body)
}

// Once fetches a package in one go: what is written cannot be undone.
func (d *Download) Once(ctx context.Context, w io.Writer) error {
	body, _, err := d.API.FetchAccess(ctx, d.About.Token, d.About.ETag, 0)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := d.copy(w, body); err != nil {
		return err
	}
	if d.Done != d.About.Size {
		return job.Errorf(job.Unavailable, "fetch", "", "%d bytes came of %d", d.Done, d.About.Size)
	}
	return nil
}

func (d *Download) copy(w io.Writer, body io.Reader) error {
	buffer := make([]byte, 256<<10)
	for {
		n, err := body.Read(buffer)
		if n > 0 {
			if _, err := io.Copy(w, bytes.NewReader(buffer[:n])); err != nil {
				return err
			}
			step := d.About.Size/20 + 1
			if shown := d.Done / step; (d.Done+int64(n))/step > shown || d.Done+int64(n) == d.About.Size {
				if err := d.Bar.Show(d.Done+int64(n), d.About.Size, "fetching "+d.About.File); err != nil {
					return err
				}
			}
			d.Done += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Bounds of the patience with a connection that breaks: so many times in a row without a byte, and the longest pause
// between.
const (
	MaxBroken = 6
	maxPause  = 10 * time.Second
)
