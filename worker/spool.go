package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Bounds of logs.
const (
	flushEvery = time.Second
	mostLines  = 500       // of one report
	mostText   = 128 << 10 // bytes of the lines of one report
	mostKept   = 4 << 20   // bytes of the lines of one job that wait for the server; later lines are dropped
)

// spool has the log lines of one job that the server does not have yet. Lines are numbered, so that the server ignores
// repetitions.
type spool struct {
	mu      sync.Mutex // guards the rest
	lines   []api.LogEntry
	size    int   // bytes of the texts of lines
	last    int64 // number of the last line
	dropped int   // lines after the last one of lines
}

func newSpool() *spool { return &spool{} }

// Logger is part of [engine.JobLogs].
func (s *spool) Logger(job.ID, int64, lifecycle.State) *slog.Logger {
	return slog.New(&handler{spool: s})
}

func (s *spool) add(l api.LogEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size+len(l.Text) > mostKept {
		s.dropped++
		return
	}
	if n := s.dropped; n > 0 {
		s.dropped = 0
		s.append(api.LogEntry{Level: "warn", Text: fmt.Sprintf("%d lines are missing: the server could not be reached", n)})
	}
	s.append(l)
}

func (s *spool) append(l api.LogEntry) {
	s.last++
	l.N = s.last
	s.lines, s.size = append(s.lines, l), s.size+len(l.Text)
}

// next returns the first lines that fit into one report.
func (s *spool) next() []api.LogEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for n < len(s.lines) && n < mostLines && (n == 0 || size+len(s.lines[n].Text) <= mostText) {
		size += len(s.lines[n].Text)
		n++
	}
	return slices.Clone(s.lines[:n])
}

// sent removes lines that the server has.
func (s *spool) sent(lines []api.LogEntry) {
	if len(lines) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := lines[len(lines)-1].N
	for len(s.lines) > 0 && s.lines[0].N <= last {
		s.size -= len(s.lines[0].Text)
		s.lines = s.lines[1:]
	}
}

// left reports how many lines the server does not have.
func (s *spool) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// flushes sends log lines and progress every second, those of all jobs in one request.
func (w *Worker) flushes(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	shown := map[job.Lease]job.Progress{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		runs := w.running()
		if len(runs) == 0 {
			clear(shown)
		}
		w.flush(ctx, runs, shown)
	}
}

// flush sends what is new of jobs. shown has the progress that was sent.
func (w *Worker) flush(ctx context.Context, runs []*run, shown map[job.Lease]job.Progress) {
	var updates []api.Report
	var of []*run
	for _, one := range runs {
		if len(of) == mostReports || !one.sent.TryLock() {
			continue
		}
		u := api.Report{Job: one.lease.Job, Epoch: one.lease.Epoch, Log: one.spool.next()}
		if p := one.remote.Progress(); p != nil && shown[one.lease] != *p {
			u.Progress, shown[one.lease] = &api.WorkProgress{Done: p.Done, Total: p.Total, Unit: p.Unit}, *p
		}
		if len(u.Log) == 0 && u.Progress == nil {
			one.sent.Unlock()
			continue
		}
		of, updates = append(of, one), append(updates, u)
	}
	if len(of) == 0 {
		return
	}
	w.show(ctx, of, updates, shown)
	for _, one := range of {
		one.sent.Unlock()
	}
}

// show sends updates in one request. If the server refuses it as a whole, each is sent alone; what is refused then is
// dropped.
func (w *Worker) show(ctx context.Context, of []*run, updates []api.Report, shown map[job.Lease]job.Progress) {
	results, err := w.api.Update(ctx, api.Reports{Worker: w.options.Name, Reports: updates})
	refused := err != nil && !passes(err)
	if refused && len(of) > 1 {
		for i := range of {
			w.show(ctx, of[i:i+1], updates[i:i+1], shown)
		}
		return
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("update", "error", err)
	}
	for i, one := range of {
		if err := one.stale(resultOf(results, i, err)); err == nil || refused {
			one.spool.sent(updates[i].Log)
		} else if err != nil {
			delete(shown, one.lease)
		}
	}
}

// lastLines sends lines until those that are left fit into the report, and returns these.
func (r *run) lastLines(ctx context.Context) ([]api.LogEntry, error) {
	r.sent.Lock()
	defer r.sent.Unlock()
	pause := newBackoff()
	for {
		lines := r.spool.next()
		if len(lines) == r.spool.left() {
			return lines, nil
		}
		results, err := r.worker.api.Update(ctx, api.Reports{Worker: r.worker.options.Name, Reports: []api.Report{{
			Job: r.lease.Job, Epoch: r.lease.Epoch, Log: lines,
		}}})
		switch err := resultOf(results, 0, err); {
		case err == nil:
			r.spool.sent(lines)
		case ctx.Err() != nil || !passes(err):
			return nil, err
		default:
			pause.wait(ctx)
		}
	}
}

// handler writes the records of a logger to a spool.
type handler struct {
	spool *spool
	group string // prefix of names, with a dot at its end
	attrs []slog.Attr
}

// Enabled is part of [slog.Handler].
func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle is part of [slog.Handler].
func (h *handler) Handle(_ context.Context, r slog.Record) error {
	l := api.LogEntry{Level: levelOf(r.Level), Text: r.Message}
	add := func(a slog.Attr) bool {
		if l.Attrs == nil {
			l.Attrs = map[string]any{}
		}
		l.Attrs[a.Key] = valueOf(a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(func(a slog.Attr) bool {
		a.Key = h.group + a.Key
		return add(a)
	})
	h.spool.add(l)
	return nil
}

// levelOf returns the level of the API that is not higher.
func levelOf(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// valueOf returns a value that JSON can have.
func valueOf(v slog.Value) any {
	switch v = v.Resolve(); v.Kind() {
	case slog.KindString, slog.KindInt64, slog.KindUint64, slog.KindBool:
		return v.Any()
	}
	return v.String()
}

// WithAttrs is part of [slog.Handler].
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		a.Key = h.group + a.Key
		next.attrs = append(next.attrs, a)
	}
	return &next
}

// WithGroup is part of [slog.Handler].
func (h *handler) WithGroup(name string) slog.Handler {
	next := *h
	next.group = h.group + strings.TrimSuffix(name, ".") + "."
	return &next
}
