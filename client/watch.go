package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/internal/eventstream"
	"github.com/stagepost/stagepost/job"
)

// Update is one message of a watched job: an entry of its history, or the record as it is now.
type Update struct {
	Event *Event // an entry that came to the history
	Job   *Job   // the record: after entries, and when progress or the counts of children changed
	// Restored is set with Job if the history has gone back, as after the restore of a backup: all entries that came
	// before are invalid, and those of the history as it is now follow from the first on
	Restored bool
}

// Watch follows a job until it has ended, ctx ends or update returns an error. It begins with the history after
// entry seq and the record, and connects again where it was if the connection breaks or is silent: for Options.Outage,
// if the server has answered before. Each entry comes once, in order, unless the store was restored; see
// [Update.Restored]. The record may come again. With a seq behind the end of the history only later entries come.
func (c *Client) Watch(ctx context.Context, id job.ID, seq int64, update func(Update) error) error {
	w := &watching{client: c, id: id, seq: seq, update: update}
	return c.outlast(ctx, "watch", id, func() (passage, error) { return w.follow(ctx) })
}

// stopped ends a stream: with an error of the caller's own function, or without one after the last event.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

// watching is the state of a Watch.
type watching struct {
	client *Client
	id     job.ID
	seq    int64    // of the last entry that came; before the first, as the caller gave it
	head   job.Hash // of that entry; zero: none came
	update func(Update) error
}

// follow reads one connection to its end.
func (w *watching) follow(ctx context.Context) (passage, error) {
	last := strconv.FormatInt(w.seq, 10)
	return w.client.stream(ctx, jobPath(w.id, "/events"), nil, last, func(what *passage, name, data string) error {
		switch name {
		case "history":
			e := &Event{}
			if err := json.Unmarshal([]byte(data), e); err != nil {
				return err
			}
			if w.differs(e) {
				what.news = true
				return w.again(ctx)
			}
			if e.Seq <= w.seq { // a proxy or a server that ignored where to continue
				return nil
			}
			what.news = true
			return w.entry(e)
		case "job":
			j := &Job{}
			if err := json.Unmarshal([]byte(data), j); err != nil {
				return err
			}
			back, err := w.wentBack(ctx, j)
			if err == nil && back {
				err = w.again(ctx)
			}
			if err != nil {
				return err
			}
			what.done = j.Ended
			return w.update(Update{Job: j})
		}
		return nil
	})
}

// entry passes an entry on.
func (w *watching) entry(e *Event) error {
	err := w.update(Update{Event: e})
	if err == nil {
		w.seq, w.head = e.Seq, e.Hash
	}
	return err
}

// differs reports whether an entry does not belong to the history of the last one: it has its number and another hash,
// or follows another entry.
func (w *watching) differs(e *Event) bool {
	switch none := (job.Hash{}); {
	case w.head == none || e.Hash == none:
		return false
	case e.Seq == w.seq:
		return e.Hash != w.head
	}
	return e.Seq == w.seq+1 && e.Prev != w.head
}

// wentBack reports whether the history of a record is no longer one that continues after the last entry. A record may
// be older than entries that came before it: then the present one decides.
func (w *watching) wentBack(ctx context.Context, j *Job) (bool, error) {
	switch none := (job.Hash{}); {
	case j.Seq == 0 || j.Seq > w.seq:
		return false, nil
	case w.head == none: // only the caller's position may be behind the end
		w.seq = j.Seq
		return false, nil
	case j.Seq == w.seq:
		return j.Head != none && j.Head != w.head, nil
	}
	now, err := w.client.Job(ctx, w.id)
	return err == nil && now.Seq < w.seq, err
}

// again passes on that the history has gone back, and all entries that it has now.
func (w *watching) again(ctx context.Context) error {
	j, err := w.client.Job(ctx, w.id)
	if err != nil {
		return err
	}
	w.seq, w.head = 0, job.Hash{}
	if err := w.update(Update{Job: &j, Restored: true}); err != nil {
		return err
	}
	const most = 1000
	for n := most; n == most; {
		entries, err := w.client.History(ctx, w.id, w.seq, most)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := w.entry(&entries[i]); err != nil {
				return err
			}
		}
		n = len(entries)
	}
	return nil
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
	err = eventstream.Read(body, func(name, data string) error {
		if err := each(&what, name, data); err != nil || what.done {
			return stopped{err}
		}
		return nil
	})
	if err == eventstream.ErrTooLong { // it would come again on the next connection
		err = stopped{job.Errorf(job.Internal, "request", "", "%w", err)}
	}
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
