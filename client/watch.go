package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// Update is one message of a watched job: an entry of its history, or the record as it is now.
type Update struct {
	Event *Event // an entry that came to the history
	Job   *Job   // the record: after entries, and when progress or the counts of children changed
}

// Watch follows a job until it has ended, ctx ends or update says stop with an error. It begins with the history after entry seq and the
// record, and connects again where it was if the connection breaks: for Options.Outage, if the server has answered before.
func (c *Client) Watch(ctx context.Context, id job.ID, seq int64, update func(Update) error) error {
	return c.outlast(ctx, "watch", id, func() (passage, error) { return c.follow(ctx, id, &seq, update) })
}

// stopped marks an error that came from the caller's own function.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// follow reads one connection to its end.
func (c *Client) follow(ctx context.Context, id job.ID, seq *int64, update func(Update) error) (what passage, err error) {
	r, err := c.request(ctx, http.MethodGet, jobPath(id, "/events"), nil, nil)
	if err != nil {
		return passage{done: true}, err
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", strconv.FormatInt(*seq, 10))
	answer, err := c.once(r)
	if err != nil {
		return what, err
	}
	defer answer.Body.Close()
	what.connected = true
	ended := false
	err = messages(answer.Body, func(name, data string) error {
		u := Update{}
		switch name {
		case "history":
			u.Event = &Event{}
			if err := json.Unmarshal([]byte(data), u.Event); err != nil {
				return stopped{err}
			}
			what.news = what.news || u.Event.Seq > *seq
			*seq = u.Event.Seq
		case "job":
			u.Job = &Job{}
			if err := json.Unmarshal([]byte(data), u.Job); err != nil {
				return stopped{err}
			}
			ended = u.Job.Ended
		default:
			return nil
		}
		if err := update(u); err != nil {
			return stopped{err}
		}
		return nil
	})
	if s := (stopped{}); errors.As(err, &s) {
		what.done = true
		return what, s.error
	}
	if ended {
		what.done = true
		return what, nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return what, unreachable(r, err)
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
