package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/job"
)

// ComputeLog opens one stream of what a job has written so far, from a byte on. The caller closes it. NotFound: it
// has written nothing.
func (c *Client) ComputeLog(ctx context.Context, id job.ID, stream string, offset int64) (io.ReadCloser, error) {
	r, err := c.request(ctx, http.MethodGet, computePath(id, "/logs"),
		number(url.Values{"stream": {stream}}, "offset", offset), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/plain")
	answer, err := c.do(r)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// FollowCompute calls each with the output of a job until the job has ended; before its start it waits. stream is
// stdout, stderr or both. It begins at a position, updates it, and connects again there if the connection breaks or is
// silent (see [Client.Watch]), so that each byte comes once. The output of a stream that begins anew has the offset 0.
func (c *Client) FollowCompute(ctx context.Context, id job.ID, stream string, at *ComputePlace,
	each func(*ComputeOutput) error) error {
	return c.outlast(ctx, "logs", id, func() (passage, error) { return c.followOutput(ctx, id, stream, at, each) })
}

// followOutput reads one connection to its end.
func (c *Client) followOutput(
	ctx context.Context, id job.ID, stream string, at *ComputePlace, each func(*ComputeOutput) error,
) (passage, error) {
	q := url.Values{"stream": {stream}, "follow": {"true"}}
	return c.stream(ctx, computePath(id, "/logs"), q, at.String(), func(what *passage, name, data string) error {
		switch name {
		case "end":
			what.done = true
		case "output":
			var o ComputeOutput
			if err := json.Unmarshal([]byte(data), &o); err != nil {
				return err
			}
			place := &at.Stdout
			if o.Stream == Stderr {
				place = &at.Stderr
			}
			if o.Offset != *place && o.Offset != 0 { // 0 also if it begins anew
				return job.Errorf(job.Internal, "logs", id, "%s continues at byte %d, not at %d", o.Stream, o.Offset,
					*place)
			}
			if err := each(&o); err != nil {
				return err
			}
			*place = o.Offset + int64(len(o.Data()))
			what.news = true
		}
		return nil
	})
}
