package computecli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// mostTail is how many bytes of the end of a stream are searched for its last lines.
const mostTail = 1 << 20

// readOutput prints what a compute job wrote: standard output to standard output and standard error to standard error,
// as far as they are wanted. With Follow it goes on until the job has ended, by one connection that stays open.
func (c *commands) readOutput(ctx context.Context, api *client.Client, id job.ID, stream string, v cli.LogView) error {
	var streams []string
	switch stream {
	case client.Stdout, client.Stderr:
		streams = []string{stream}
	case client.Both:
		streams = []string{client.Stdout, client.Stderr}
	default:
		return cli.Usagef("--stream must be stdout, stderr or both, not %q", stream)
	}
	var ends client.ComputePlace
	for _, one := range streams {
		if v.Follow && v.Tail == 0 {
			break
		}
		end, err := c.readStream(ctx, api, id, one, v.Tail)
		if err != nil && (!v.Follow || job.KindOf(err) != job.NotFound) { // a job that has not begun is followed
			return err
		}
		if one == client.Stdout {
			ends.Stdout = end
		} else {
			ends.Stderr = end
		}
	}
	if v.Follow {
		err := api.FollowCompute(ctx, id, stream, &ends, c.pass)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
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

// readStream prints one stream as far as it is there, or its last lines, and returns where it ends.
func (c *commands) readStream(ctx context.Context, api *client.Client, id job.ID, stream string, tail int) (int64,
	error) {
	body, err := api.ComputeLog(ctx, id, stream, 0)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	last := lastLines{most: mostTail}
	buffer := make([]byte, 64<<10)
	for at := int64(0); ; {
		n, err := body.Read(buffer)
		if tail > 0 {
			last.add(buffer[:n])
		} else if err := c.piece(stream, at, buffer[:n]); err != nil {
			return at, err
		}
		at += int64(n)
		switch {
		case err == io.EOF && tail > 0:
			text := last.lines(tail)
			return at, c.piece(stream, at-int64(len(text)), text)
		case err == io.EOF:
			return at, nil
		case err != nil:
			return at, job.Errorf(job.Unavailable, "logs", id, "it broke off after %d bytes: %w", at, err)
		}
	}
}

// piece prints bytes of a stream that begin at an offset.
func (c *commands) piece(stream string, offset int64, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	o := client.ComputeOutput{Stream: stream, Offset: offset, Text: string(data)}
	if !utf8.Valid(data) {
		o.Text, o.Base64 = "", data
	}
	return c.pass(&o)
}

// lastLines keeps the end of a stream.
type lastLines struct {
	most int // bytes
	end  []byte
	cut  bool // bytes before end are gone
}

func (l *lastLines) add(data []byte) {
	l.end = append(l.end, data...)
	if len(l.end) > 2*l.most { // moved once for so many bytes
		l.end, l.cut = append(l.end[:0], l.end[len(l.end)-l.most:]...), true
	}
}

// lines returns the last n lines. The last one may lack its line break. A line whose beginning is gone counts only if
// there is no other.
func (l *lastLines) lines(n int) []byte {
	text, cut := l.end, l.cut
	if len(text) > l.most {
		text, cut = text[len(text)-l.most:], true
	}
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for ; n > 0 && at >= 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
	}
	if at < 0 && cut {
		at = bytes.IndexByte(text[:max(0, len(text)-1)], '\n')
	}
	return text[at+1:]
}
