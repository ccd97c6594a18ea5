package slurm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/slurm/reason"
)

// endFile keeps what was concluded of an end: Slurm forgets jobs.
const endFile = "end.json"

// Query is part of [compute.Executor].
func (s *Slurm) Query(ctx context.Context, h compute.Handle) (compute.Notice, error) {
	dir, err := dirOf(h.Ticket)
	if err != nil {
		return compute.Notice{}, err
	}
	p, err := s.enter(h.Ticket)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.gone(dir):
		return s.lost(tombstone), nil
	case errors.Is(err, fs.ErrNotExist) && s.marked(dir) != nil:
		s.abandon(ctx, dir)
		return s.lost(removed), nil
	case errors.Is(err, fs.ErrNotExist) && h.Instance != "" && h.Instance != s.instance:
		return s.lost("the directory of " + s.o.Name + " is another one than when it took the payload"), nil
	case errors.Is(err, fs.ErrNotExist):
		return compute.Notice{Standing: compute.Stranger, Instance: s.instance}, nil
	case err != nil:
		return compute.Notice{}, err
	}
	defer p.close()
	n, err := s.stand(ctx, p)
	n.Instance = s.instance
	return n, err
}

// stand reports how a payload stands whose directory is there.
func (s *Slurm) stand(ctx context.Context, p *payload) (compute.Notice, error) {
	if n, ok := p.concluded(); ok {
		s.setDone(p.dir)
		return n, nil
	}
	if !p.has(sentFile) {
		if p.has(killedFile) {
			return s.conclude(p, row{}, states["CANCELLED"])
		}
		return compute.Notice{Standing: compute.Stranger}, nil // the server that took it was killed before sbatch
	}
	asOf := s.now().Add(-s.o.Poll)
	if p.receipt.At.After(asOf) {
		asOf = p.receipt.At
	}
	v, err := s.queue.since(ctx, asOf, nameOf(p.dir))
	if err != nil {
		return compute.Notice{}, err
	}
	claimed, _ := p.claimed()
	r, ok := pick(v.rows[nameOf(p.dir)], claimed)
	if !ok {
		return s.absent(ctx, p)
	}
	s.single(ctx, p, v.rows[r.name], r)
	return s.noticeOf(ctx, p, r)
}

// noticeOf reads a job's row.
func (s *Slurm) noticeOf(ctx context.Context, p *payload, r row) (compute.Notice, error) {
	m := meant(r.state)
	n := compute.Notice{Standing: m.standing, Remote: r.id, Reason: m.sentence}
	switch m.standing {
	case compute.Waits:
		if n.Reason == "" {
			n.Reason = why(r.reason)
		}
	case compute.Works:
		n.Place, n.Started = r.node, r.start
	case compute.Ended:
		return s.over(ctx, p, r, m)
	}
	return n, nil
}

// over waits for exit.json, where there can be one, and concludes.
func (s *Slurm) over(ctx context.Context, p *payload, r row, m meaning) (compute.Notice, error) {
	if p.exit() == nil {
		if !p.unrun() && s.sinceEnd(p.dir) < s.o.Settle {
			return compute.Notice{Standing: compute.Works, Remote: r.id, Place: r.node, Started: r.start,
				Reason: "it has ended; what it wrote down of its end is awaited"}, nil
		}
		if !r.known && r.id != "" {
			r = s.shown(ctx, r)
		}
	}
	return s.conclude(p, r, m)
}

// unrun reports whether a server has taken the payload so that no run of it could begin.
func (p *payload) unrun() bool {
	id, taken := p.claimed()
	return taken && id == "" && p.has(killedFile)
}

// absent is what becomes of a payload that squeue does not know (any more). Nothing is concluded before it was asked
// twice.
func (s *Slurm) absent(ctx context.Context, p *payload) (compute.Notice, error) {
	if p.exit() != nil || p.unrun() {
		return s.conclude(p, row{id: p.receipt.ID}, meaning{standing: compute.Ended, cause: compute.CauseLost,
			sentence: "it was cancelled before it ran"})
	}
	pause := time.NewTimer(min(s.o.Poll, time.Second))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return compute.Notice{}, context.Cause(ctx)
	}
	name := nameOf(p.dir)
	v, err := s.queue.since(ctx, s.now(), name)
	if err != nil {
		return compute.Notice{}, err
	}
	claimed, taken := p.claimed()
	if r, ok := pick(v.rows[name], claimed); ok {
		return s.noticeOf(ctx, p, r)
	}
	if v.odd != "" {
		return compute.Notice{}, fmt.Errorf("squeue cannot be understood: %q", printable(v.odd, 200))
	}
	booked, err := s.booked(ctx, []string{name})
	if err != nil && !errors.Is(err, errNoAccounting) {
		return compute.Notice{}, err
	}
	if r, ok := pick(booked[name], claimed); ok {
		return s.noticeOf(ctx, p, r)
	}
	switch {
	case p.exit() != nil:
		return s.conclude(p, row{id: p.receipt.ID}, meaning{standing: compute.Ended})
	case p.refresh() == nil && p.receipt.ID == "" && !taken:
		return compute.Notice{Standing: compute.Stranger}, nil
	}
	n := s.lost(fmt.Sprintf(
		"Slurm has no record of job %s any more (it keeps ended jobs for MinJobAge), and there is no "+
			"exit.json", p.receipt.ID))
	n.Remote = p.receipt.ID
	return n, nil
}

// single ends what a payload has in Slurm besides its job: a second one that a server handed over whose sbatch was
// answered late. It could run nothing.
func (s *Slurm) single(ctx context.Context, p *payload, rows []row, its row) {
	if p.receipt.ID != its.id {
		if err := s.receive(p, its.id); err != nil {
			s.log.Warn("a job's number cannot be written down", "payload", p.dir, "error", err)
		}
	}
	for _, r := range rows {
		if r.id != its.id && !over(r.state) {
			if err := s.cancel(ctx, p.dir, []string{r.id}); err != nil {
				s.log.Warn("a second job of a payload cannot be cancelled; it will run nothing", "payload", p.dir,
					"slurm", r.id, "error", err)
			}
		}
	}
}

// concluded reads end.json.
func (p *payload) concluded() (n compute.Notice, ok bool) {
	text, err := readFile(p.root, endFile, 1<<16)
	if err != nil || json.Unmarshal(text, &n) != nil || n.Standing != compute.Ended || n.Ending == nil {
		return compute.Notice{}, false
	}
	return n, true
}

// conclude writes down how a payload ended. Later queries return the same.
func (s *Slurm) conclude(p *payload, r row, m meaning) (compute.Notice, error) {
	e := p.exit()
	_, taken := p.claimed()
	facts := end{exit: e, row: r, meaning: m, killed: p.has(killedFile), ran: e != nil || taken && !p.unrun(),
		limits: p.ticket.Limits, log: p.tail(slurmLog), dir: s.o.Dir}
	ending := facts.ending()
	ending.Sandbox = p.ticket.Sandbox
	n := compute.Notice{Standing: compute.Ended, Remote: r.id, Ending: &ending, Started: ending.Started,
		Finished: ending.Finished, Place: r.node, HasResult: facts.ran}
	if n.Remote == "" {
		n.Remote = p.receipt.ID
	}
	if n.HasResult {
		n.Bytes = -1
	}
	if e != nil && n.Place == "" {
		n.Place = e.Place
	}
	text, err := json.Marshal(n)
	if err == nil {
		err = writeFile(p.root, endFile, text)
	}
	if err != nil {
		return compute.Notice{}, fmt.Errorf("slurm: payload %s: %w", p.dir, err)
	}
	s.setDone(p.dir)
	return n, nil
}

// tail gives the end of a file, for people.
func (p *payload) tail(name string) string {
	f, err := openFile(p.root, name)
	if err != nil {
		return ""
	}
	defer f.Close()
	text := make([]byte, 2048)
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	n, _ := f.ReadAt(text, max(0, info.Size()-int64(len(text))))
	return string(text[:n])
}

// why explains a reason of Slurm.
func why(text string) string {
	return reason.Sentence(printable(strings.Trim(strings.TrimSpace(text), "()"), 200))
}
