package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Times of an event stream.
const (
	StreamBeat = 15 * time.Second // between signs of life; also how long a lost hint can hide a change
	streamTick = time.Second      // between readings of the progress, which has no hints
	// between readings of a job that changes quickly, such as a flow with many small tasks; the changes
	// meanwhile become one
	streamPause = 50 * time.Millisecond
	// that a reader may take; a slower one is dropped and comes back with Last-Event-ID
	streamWrite = 10 * time.Second
)

// Events streams what happens to a job (server-sent events): each entry of its history as `history`, whose id is a
// [entryID], and the record as `job` whenever it changed, which includes the counts of a batch. It begins after
// Last-Event-ID and ends when the job has ended. With the parameter offset it reports as `log` when the log of the job
// is longer. If the history no longer has the entry of Last-Event-ID, as after the restore of a backup, it sends the
// record as `restored`, and then the history from its first entry on.
func (s *Server) Events(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	seq, log := p.Number("after", 0, 1<<62), p.Number("offset", 0, 1<<62)
	if s.Logs == nil || !r.URL.Query().Has("offset") {
		log = -1
	}
	err := p.Err()
	if err != nil {
		return err
	}
	last := entryID{seq: seq}
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		if last, err = entryIDOf(text); err != nil {
			return job.Errorf(job.Invalid, "watch", JobID(r), "%w", err)
		}
	}
	j, err := s.Store.Get(r.Context(), JobID(r))
	if err != nil {
		return err
	}
	restored, err := s.lacks(r.Context(), &j, last)
	if err != nil {
		return err
	}
	if seq = min(last.seq, j.Seq); restored { // a number alone beyond the end: the next entries are sent
		seq, last.hash = 0, ""
	}
	leave, err := s.EnterStream(r)
	if err != nil {
		return err
	}
	defer leave()
	changed, stop := s.WatchJob(JobID(r))
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	st := &stream{server: s, id: JobID(r), seq: seq, hash: last.hash, log: log, w: w,
		control: http.NewResponseController(w)}
	if restored {
		if err := put[api.Job](st, "restored", s.View(j)); err != nil {
			return nil // the status is sent
		}
	}
	st.run(r.Context(), changed)
	return nil
}

// entryID names an entry of a history in the id of a message: by its number and the beginning of its hash, such as
// 5-0123456789abcdef. The hash distinguishes it from an entry with the same number after the restore of a backup.
type entryID struct {
	seq  int64
	hash string // hashDigits of it; empty: any
}

// hashDigits is how many digits of a hash an entryID has.
const hashDigits = 16

func (e entryID) String() string { return strconv.FormatInt(e.seq, 10) + "-" + e.hash }

// entryIDOf reads an entryID. A number alone names any entry with it.
func entryIDOf(text string) (p entryID, err error) {
	number, hash, hashed := strings.Cut(text, "-")
	p.hash = hash
	p.seq, err = strconv.ParseInt(number, 10, 64)
	if err != nil || p.seq < 0 || hashed && len(hash) != hashDigits {
		return entryID{}, fmt.Errorf("Last-Event-ID must be the id of a message or the number of an entry, not %.40q",
			text)
	}
	return p, nil
}

// lacks reports whether the history of a job does not have an entry.
func (s *Server) lacks(ctx context.Context, j *job.Job, p entryID) (bool, error) {
	if p.hash == "" || p.seq < 1 || p.seq > j.Seq {
		return p.hash != "", nil
	}
	entries, err := s.Store.History(ctx, j.ID, p.seq-1, 1)
	return len(entries) == 0 || hashOf(&entries[0]) != p.hash, err
}

// hashOf returns the hash of an entry as an entryID has it.
func hashOf(e *job.Event) string { return e.Hash.String()[:hashDigits] }

// stream is one reader of one job.
type stream struct {
	server   *Server
	id       job.ID
	seq      int64  // of the last entry sent
	hash     string // of that entry, as an entryID has it
	version  int64  // of the last record sent
	log      int64  // length of the log as last sent; -1: it is not sent
	progress job.Progress
	control  *http.ResponseController
	w        http.ResponseWriter
	buffer   bytes.Buffer
}

// run ends with the reader, the server or the job. Errors end the stream: the reader comes back and gets them as an
// answer.
func (st *stream) run(ctx context.Context, changed <-chan struct{}) {
	tick := time.NewTicker(streamTick)
	defer tick.Stop()
	look, said := true, time.Now()
	var looked time.Time
	for {
		if look {
			looked = time.Now()
			ended, err := st.read(ctx)
			if err != nil {
				return
			}
			if st.buffer.Len() == 0 && time.Since(said) >= StreamBeat {
				st.buffer.WriteString(": still here\n\n")
			}
			if st.buffer.Len() > 0 {
				said = time.Now()
			}
			if st.flush() != nil || ended {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-st.server.hub.Done():
			return
		case <-changed:
			if !st.rest(ctx, streamPause-time.Since(looked)) {
				return
			}
			look = true
		case <-tick.C:
			p, _ := st.server.Engine.Progress(st.id)
			look = p != st.progress || st.logSize() > st.log || time.Since(said) >= StreamBeat
		}
	}
}

// rest waits for a time; it reports whether the stream continues.
func (st *stream) rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-st.server.hub.Done():
	}
	return false
}

// read puts what is new into the buffer.
func (st *stream) read(ctx context.Context) (ended bool, err error) {
	j, err := st.server.Store.Get(ctx, st.id)
	if err != nil {
		return false, err
	}
	if j.Seq < st.seq || j.Seq == st.seq && st.parts(j.Head) {
		return true, nil // restored meanwhile: the reader comes back, and is notified
	}
	for st.seq < j.Seq {
		entries, err := st.server.Store.History(ctx, st.id, st.seq, 500)
		if err != nil {
			return false, err
		}
		if len(entries) == 0 {
			break
		}
		if st.parts(entries[0].Prev) {
			return true, nil
		}
		withhold(ctx, entries)
		for _, e := range entries {
			st.seq, st.hash = e.Seq, hashOf(&e)
			if err := put(st, "history", e); err != nil {
				return false, err
			}
		}
		if st.buffer.Len() > 64<<10 {
			if err := st.flush(); err != nil {
				return false, err
			}
		}
	}
	if n := st.logSize(); n > st.log {
		st.log = n
		if err := put(st, "log", api.LogSize{Size: n}); err != nil {
			return false, err
		}
	}
	p, _ := st.server.Engine.Progress(st.id)
	if j.Version == st.version && p == st.progress {
		return j.Ended, nil
	}
	st.version, st.progress = j.Version, p
	var view api.Job = st.server.View(j)
	return j.Ended, put(st, "job", view)
}

// parts reports whether a hash is not that of the last entry sent, so that what follows it belongs to another history.
func (st *stream) parts(h job.Hash) bool {
	return st.hash != "" && h != (job.Hash{}) && h.String()[:hashDigits] != st.hash
}

// logSize returns the length of the log; -1: it is not sent.
func (st *stream) logSize() int64 {
	if st.log < 0 {
		return -1
	}
	n, err := st.server.Logs.Size(st.id)
	if err != nil {
		return st.log // the reader gets the error when it reads the log
	}
	return n
}

func put[T any](st *stream, name string, v T) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if name == "history" {
		fmt.Fprintf(&st.buffer, "id: %s\n", entryID{st.seq, st.hash})
	}
	fmt.Fprintf(&st.buffer, "event: %s\ndata: %s\n\n", name, text) // JSON has no line breaks
	return nil
}

func (st *stream) flush() error {
	if st.buffer.Len() == 0 {
		return nil
	}
	_ = st.control.SetWriteDeadline(time.Now().Add(streamWrite))
	_, err := st.w.Write(st.buffer.Bytes())
	st.buffer.Reset()
	if err != nil {
		return err
	}
	return st.control.Flush()
}
