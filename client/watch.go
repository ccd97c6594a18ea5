package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Update is one message of a watched job: an entry of its history, or the record as it is now.
type Update struct {
	Event *Event // an entry that came to the history
	Job   *Job   // the record: after entries, and when progress or the counts of children changed
}

// Watch follows a job until it has ended, ctx ends or update returns an error. It begins with the history after
// entry seq and the record, and connects again where it was if the connection breaks or is silent: for Options.Outage,
// if the server has answered before. Each entry comes once, in order; the record may come again.
func (c *Client) Watch(ctx context.Context, id job.ID, seq int64, update func(Update) error) error {
	return c.outlast(ctx, "watch", id, func() (passage, error) { return c.follow(ctx, id, &seq, update) })
}

// stopped ends a stream: with an error of the caller's own function, or without one after the last event.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// follow reads one connection to its end.
func (c *Client) follow(ctx context.Context, id job.ID, seq *int64, update func(Update) error) (passage, error) {
	ended := false
	last := strconv.FormatInt(*seq, 10)
	return c.stream(ctx, jobPath(id, "/events"), nil, last, func(what *passage, name, data string) error {
		u := Update{}
		switch name {
		case "history":
			u.Event = &Event{}
			if err := json.Unmarshal([]byte(data), u.Event); err != nil {
				return err
			}
			if u.Event.Seq <= *seq { // a proxy or a server that ignored where to continue
				return nil
			}
		case "job":
			u.Job = &Job{}
			if err := json.Unmarshal([]byte(data), u.Job); err != nil {
				return err
			}
			ended = u.Job.Ended
		default:
			return nil
		}
		if err := update(u); err != nil {
			return err
		}
		if u.Event != nil {
			*seq, what.news = u.Event.Seq, true
		}
		what.done = ended
		return nil
	})
}

// silence is the time without a byte after which a stream counts as broken. The server sends a comment every 15 s.
const silence = time.Minute

// errSilent reports that a stream was ended for that reason.
var errSilent = errors.New("nothing came for " + silence.String())

// stream reads one connection of server-sent events to its end, beginning after the event last. An error of each ends
// the stream permanently; each sets done once there is nothing to come back for.
func (c *Client) stream(
	ctx context.Context, path string, q url.Values, last string, each func(what *passage, name, data string) error,
) (what passage, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := c.request(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return passage{done: true}, err
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", last)
	alarm := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alarm.Stop()
	answer, err := c.once(r)
	if err != nil {
		return what, broken(ctx, err)
	}
	defer answer.Body.Close()
	what.connected = true
	body := &counted{answer.Body, func(int64) { alarm.Reset(silence) }}
	err = messages(body, func(name, data string) error {
		if err := each(&what, name, data); err != nil || what.done {
			return stopped{err}
		}
		return nil
	})
	if s := (stopped{}); errors.As(err, &s) {
		what.done = true
		return what, s.error
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return what, unreachable(r, broken(ctx, err))
}

// broken returns the reason for which a stream was ended, or the error.
func broken(ctx context.Context, err error) error {
	if context.Cause(ctx) == errSilent {
		return &job.Error{Op: "request", Kind: job.Unavailable, Err: errSilent}
	}
	return err
}

// messages reads a stream of server-sent events (HTML standard, section 9.2) and calls each for every message.
func messages(r io.Reader, each func(name, data string) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	name, data := "", []string{}
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			if len(data) > 0 {
				if err := each(name, strings.Join(data, "\n")); err != nil {
					return err
				}
			}
			name, data = "", data[:0]
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			data = append(data, value)
		}
	}
	return lines.Err()
}
