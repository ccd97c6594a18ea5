package computehttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// logWrite is the time that a reader of a log may take for a piece.
const logWrite = 30 * time.Second

// logPiece is as much as is passed on at once.
const logPiece = 32 << 10

// output is a piece of what a job wrote.
type output struct {
	stream string
	offset int64 // of its first byte
	data   []byte
}

// logsCompute gives what a job writes: as text, or as server-sent events when Accept asks for them. With follow it goes
// on until the job has ended, and waits for a job that has not begun. Events are numbered by the position in both
// streams, so that a reader that comes back with Last-Event-ID misses nothing and gets nothing twice.
func (s *Handlers) logsCompute(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	stream, offset, follow := p.Choice("stream", "stdout", "stderr", "both"), p.Number("offset", 0,
		1<<62), p.Flag("follow")
	if err := p.Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	l := &outputs{server: s.Server, app: app, id: j.ID, follow: follow != nil && *follow,
		asEvents: strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
	if err := l.start(stream, offset, r.Header.Get("Last-Event-ID")); err != nil {
		return err
	}
	back := l.asEvents && r.Header.Get("Last-Event-ID") != "" // what began anew meanwhile is sent from its first byte
	if l.follow && !back {
		if err := l.within(r.Context(), &j); err != nil {
			return err
		}
	}
	leave, err := s.EnterStream(r)
	if err != nil {
		return err
	}
	defer leave()
	if !l.follow && !l.asEvents { // an error is still an answer of its own
		if l.first, err = app.Log(r.Context(), &j, l.streams[0], l.offsets[l.streams[0]], false); err != nil {
			return logError(&j, err)
		}
	}
	l.begin(w)
	if err := l.run(r.Context()); err != nil && r.Context().Err() == nil && !l.asEvents {
		s.Log.Warn("a log broke off", "job", j.ID, "error", err)
		panic(http.ErrAbortHandler) // the status is sent: only a broken connection reports that this is not all
	}
	_ = l.control.SetWriteDeadline(time.Now().Add(logWrite))
	return nil
}

// logError makes an answer of what an executor reported.
func logError(j *job.Job, err error) error {
	var e *job.Error
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, fs.ErrNotExist): // results of others may have no such file
		return job.Errorf(job.NotFound, "logs", j.ID, "its results have no such log")
	}
	return job.Errorf(job.Unavailable, "logs", j.ID, "its agent does not give it: %w", err)
}

// outputs is one reader of what a job writes.
type outputs struct {
	server   *server.Server
	app      Compute
	id       job.ID
	follow   bool
	asEvents bool
	streams  []string
	offsets  map[string]int64
	first    io.ReadCloser // of the first stream, opened already
	w        http.ResponseWriter
	control  *http.ResponseController
}

// start reads which streams are wanted, and from where on.
func (l *outputs) start(stream string, offset int64, last string) error {
	switch stream {
	case "", api.Stdout, api.Stderr:
		if stream == "" {
			stream = api.Stdout
			if l.asEvents {
				l.streams = []string{api.Stdout, api.Stderr}
				break
			}
		}
		l.streams = []string{stream}
	case api.Both:
		l.streams = []string{api.Stdout, api.Stderr}
	default:
		return job.Errorf(job.Invalid, "logs", l.id, "stream must be stdout, stderr or both, not %.40q", stream)
	}
	if len(l.streams) == 2 && offset != 0 {
		return job.Errorf(job.Invalid, "logs", l.id,
			"an offset is for one stream; a reader of both goes on with Last-Event-ID")
	}
	l.offsets = map[string]int64{l.streams[0]: offset}
	if last == "" || !l.asEvents {
		return nil
	}
	var at api.ComputePlace
	if n, err := fmt.Sscanf(last, "%d-%d", &at.Stdout, &at.Stderr); err != nil || n != 2 || at.Stdout < 0 ||
		at.Stderr < 0 || at.String() != last {
		return job.Errorf(job.Invalid, "logs", l.id,
			"Last-Event-ID must be two numbers of bytes such as 120-0, not %.40q", last)
	}
	l.offsets[api.Stdout], l.offsets[api.Stderr] = at.Stdout, at.Stderr
	return nil
}

// within refuses to follow a stream from an offset behind its end: its reader would wait for bytes that do not follow
// what it has. It is decided by the byte before the offset. A stream that cannot be read yet is refused, or waited
// for, later.
func (l *outputs) within(ctx context.Context, j *job.Job) error {
	for _, stream := range l.streams {
		offset := l.offsets[stream]
		if behind, _ := l.behind(ctx, j, stream, offset); behind {
			return problem.Refuse(http.StatusRequestedRangeNotSatisfiable, job.Invalid,
				"%s has fewer than %d bytes: read it from its beginning", stream, offset)
		}
	}
	return nil
}

// behind reports whether an offset is behind the end of a stream, and whether that is known: the stream could be read.
func (l *outputs) behind(ctx context.Context, j *job.Job, stream string, offset int64) (behind, known bool) {
	if offset == 0 {
		return false, true
	}
	body, err := l.app.Log(ctx, j, stream, offset-1, false)
	if err != nil {
		return false, false
	}
	_, err = io.ReadFull(body, make([]byte, 1))
	_ = body.Close()
	return errors.Is(err, io.EOF), err == nil || errors.Is(err, io.EOF)
}

func (l *outputs) begin(w http.ResponseWriter) {
	l.w, l.control = w, http.NewResponseController(w)
	_ = l.control.SetReadDeadline(time.Time{}) // the request is read; its time must not end the answer
	_ = l.control.SetWriteDeadline(time.Now().Add(logWrite))
	w.Header().Set("X-Accel-Buffering", "no")
	if l.asEvents {
		w.Header().Set("Content-Type", "text/event-stream")
	} else {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(http.StatusOK)
	_ = l.control.Flush()
}

// run reads the streams side by side and writes what comes. It ends with the reader, the server or the job.
func (l *outputs) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces, ends := make(chan output), make(chan error, len(l.streams))
	for i, stream := range l.streams {
		var opened io.ReadCloser
		if i == 0 {
			opened = l.first
		}
		go func() { ends <- l.read(ctx, stream, l.offsets[stream], opened, pieces) }()
	}
	at := api.ComputePlace{Stdout: l.offsets[api.Stdout], Stderr: l.offsets[api.Stderr]}
	beat := time.NewTicker(server.StreamBeat)
	defer beat.Stop()
	for open := len(l.streams); open > 0; {
		var err error
		select {
		case <-l.server.Closing():
			return nil
		case p := <-pieces:
			err = l.put(&at, &p)
		case <-beat.C:
			if l.asEvents {
				err = l.write([]byte(": still here\n\n"))
			}
		case err = <-ends:
			open--
		}
		if err != nil {
			return err
		}
	}
	return l.end(ctx)
}

// end informs a reader of events that there is nothing to come back for.
func (l *outputs) end(ctx context.Context) error {
	if !l.asEvents {
		return nil
	}
	j, err := l.server.Store.Get(ctx, l.id)
	if err != nil {
		return err
	}
	text, err := json.Marshal(map[string]string{"state": string(j.State), "outcome": string(j.Outcome),
		"cause": j.Cause})
	if err != nil {
		return err
	}
	return l.write(fmt.Appendf(nil, "event: end\ndata: %s\n\n", text))
}

// put writes a piece.
func (l *outputs) put(at *api.ComputePlace, p *output) error {
	if !l.asEvents {
		return l.write(p.data)
	}
	place := &at.Stdout
	if p.stream == api.Stderr {
		place = &at.Stderr
	}
	*place = p.offset + int64(len(p.data))
	o := api.ComputeOutput{Stream: p.stream, Offset: p.offset}
	if utf8.Valid(p.data) {
		o.Text = string(p.data)
	} else {
		o.Base64 = p.data
	}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return l.write(fmt.Appendf(nil, "id: %s\nevent: output\ndata: %s\n\n", at, text)) // JSON has no line breaks
}

func (l *outputs) write(b []byte) error {
	_ = l.control.SetWriteDeadline(time.Now().Add(logWrite))
	if _, err := l.w.Write(b); err != nil {
		return err
	}
	return l.control.Flush()
}

// errAnew ends a log as text that begins anew: its reader could not distinguish the new one.
var errAnew = errors.New("the log began anew, with another attempt")

// read reads one stream from a byte on: what there is, or with follow all that comes until the job has ended. If the
// log begins anew with another attempt, events come from its first byte on; a text ends.
func (l *outputs) read(ctx context.Context, stream string, offset int64, opened io.ReadCloser, to chan<- output) error {
	changed, stop := l.server.WatchJob(l.id)
	defer stop()
	attempt, within := int64(0), !l.follow // within: the offset is known to be
	for {
		j, err := l.server.Store.Get(ctx, l.id)
		if err != nil {
			return err
		}
		d, err := compute.DataOf(&j)
		if err != nil {
			return err
		}
		anew := attempt != 0 && d.Attempt != attempt && offset > 0
		if attempt = d.Attempt; !within && !anew {
			anew, within = l.behind(ctx, &j, stream, offset)
		}
		if anew && !l.asEvents {
			return errAnew
		}
		if anew {
			offset = 0
		}
		body := opened
		if opened = nil; body == nil {
			body, err = l.app.Log(ctx, &j, stream, offset, l.follow)
		}
		if err == nil {
			offset, err = pass(ctx, body, stream, offset, to)
		}
		missing := job.KindOf(err) == job.NotFound || job.KindOf(err) == job.Gone || errors.Is(err, fs.ErrNotExist)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !l.follow && missing, j.Ended && missing:
			return nil
		case !l.follow, j.Ended:
			return err
		}
		pause := 5 * time.Second // a lost hint delays the end by that much
		if err != nil && !missing {
			pause = time.Second
		}
		if !l.wait(ctx, changed, pause) {
			return ctx.Err()
		}
	}
}

// wait blocks until a change of the job, or the time; it reports whether the stream is to go on.
func (l *outputs) wait(ctx context.Context, changed <-chan struct{}, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// pass passes a stream on to its end, and gives the offset behind it. Characters of several bytes are kept together.
func pass(ctx context.Context, body io.ReadCloser, stream string, offset int64, to chan<- output) (int64, error) {
	stop := context.AfterFunc(ctx, func() { _ = body.Close() }) // a reader that waits ends with that
	defer func() {
		if stop() {
			_ = body.Close()
		}
	}()
	buffer := make([]byte, logPiece)
	kept := 0
	for {
		n, err := body.Read(buffer[kept:])
		n += kept
		whole := n
		if err == nil {
			whole = wholeText(buffer[:n])
		}
		if whole > 0 {
			select {
			case to <- output{stream, offset, bytes.Clone(buffer[:whole])}:
			case <-ctx.Done():
				return offset, ctx.Err()
			}
			offset += int64(whole)
		}
		kept = copy(buffer, buffer[whole:n])
		if errors.Is(err, io.EOF) {
			return offset, nil
		}
		if err != nil {
			return offset, err
		}
	}
}

// wholeText gives the length of a text without the beginning of a character at its end.
func wholeText(b []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(b); back++ {
		if c := b[len(b)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-back:]) {
				return len(b) - back
			}
			break
		}
	}
	return len(b)
}
