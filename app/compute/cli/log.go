package computecli

import (
	"context"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// readOutput prints what a compute job wrote: standard output to standard output and standard error to standard error,
// as far as they are wanted. With follow it goes on until the job has ended, by one connection that stays open.
func (c *commands) readOutput(ctx context.Context, api *client.Client, id job.ID, stream string, follow bool) error {
	switch stream {
	case client.Stdout, client.Stderr, client.Both:
	default:
		return cli.Usagef("--stream must be stdout, stderr or both, not %q", stream)
	}
	if follow {
		err := api.FollowCompute(ctx, id, stream, &client.ComputePlace{}, c.pass)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		return c.tellCut(ctx, api, id)
	}
	streams := []string{stream}
	if stream == client.Both {
		streams = []string{client.Stdout, client.Stderr}
	}
	for _, one := range streams {
		if err := c.readStream(ctx, api, id, one); err != nil {
			return err
		}
	}
	return c.tellCut(ctx, api, id)
}

// tellCut reports on standard error that a job wrote more than is kept; with -o json the job reports it itself
// (log_cut).
func (c *commands) tellCut(ctx context.Context, api *client.Client, id job.ID) error {
	if c.Out.Mode == cli.ModeJSON {
		return nil
	}
	j, err := api.ComputeJob(ctx, id)
	if err == nil {
		c.sayCut(&j)
	}
	return err
}

func (c *commands) sayCut(j *client.ComputeJob) {
	if j.Ending == nil || !j.Ending.LogCut || c.Out.Mode == cli.ModeJSON {
		return
	}
	most := "its limit"
	if j.Limits != nil && j.Limits.Output > 0 {
		most = fmt.Sprintf("its limit of %d bytes", j.Limits.Output)
	}
	c.Err.Line("stagepost: %s wrote more than is kept: each of standard output and error was cut at %s, and the rest "+
		"is gone (--limit output=SIZE keeps more)", j.ID, most)
}

// readStream prints one stream as far as it is there.
func (c *commands) readStream(ctx context.Context, api *client.Client, id job.ID, stream string) error {
	body, err := api.ComputeLog(ctx, id, stream, 0)
	if err != nil {
		return err
	}
	defer body.Close()
	buffer := make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := body.Read(buffer)
		if n > 0 {
			piece := client.ComputeOutput{Stream: stream, Offset: at, Text: string(buffer[:n])}
			if !utf8.Valid(buffer[:n]) {
				piece.Text, piece.Base64 = "", buffer[:n]
			}
			if err := c.pass(&piece); err != nil {
				return err
			}
			at += int64(n)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return job.Errorf(job.Unavailable, "logs", id, "it broke off after %d bytes: %w", at, err)
		}
	}
}
