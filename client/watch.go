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
	"time"

	"github.com/stagepost/stagepost/job"
)

// Update is one message of a watched job: an entry of its history, or the record as it is now.
type Update struct {
	Event *Event // an entry that came to the history
	Job   *Job   // the record: after entries, and when progress or the counts of children changed
}

// Watch follows a job until it has ended, ctx ends or update says stop with an error. It begins with the history after entry seq and the
// record, and connects again where it was if the connection breaks.
func (c *Client) Watch(ctx context.Context, id job.ID, seq int64, update func(Update) error) error {
	pause := 100 * time.Millisecond
	for {
		before := seq
		done, err := c.follow(ctx, id, &seq, update)
		if done || ctx.Err() != nil {
			return err
		}
		if kind := job.KindOf(err); err != nil && kind != job.Unavailable {
			return err
		}
		if seq > before {
			pause = 100 * time.Millisecond
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return &job.Error{Op: "watch", Kind: job.Unavailable, ID: id, Err: ctx.Err()}
		case <-wait.C:
		}
		if pause *= 2; pause > 5*time.Second {
			return err
		}
	}
}

// stopped marks an error that came from the caller's own function.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// follow reads one connection to its end. done tells that there is nothing to connect again for.
func (c *Client) follow(ctx context.Context, id job.ID, seq *int64, update func(Update) error) (done bool, err error) {
	r, err := c.request(ctx, http.MethodGet, jobPath(id, "/events"), nil, nil)
	if err != nil {
		return true, err
	}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", strconv.FormatInt(*seq, 10))
	answer, err := c.do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	ended := false
	err = messages(answer.Body, func(name, data string) error {
		u := Update{}
		switch name {
		case "history":
			u.Event = &Event{}
			if err := json.Unmarshal([]byte(data), u.Event); err != nil {
				return stopped{err}
			}
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
		return true, s.error
	}
	if ended {
		return true, nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return false, unreachable(r, err)
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
