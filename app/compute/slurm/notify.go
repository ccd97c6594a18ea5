package slurm

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Notify is part of [compute.Notifier]: it asks squeue each Options.Poll for all payloads at once, earlier when an
// exit.json appears, and reports what differs. While there are no payloads it asks nothing.
func (s *Slurm) Notify(ctx context.Context, connected func(), changed func(id job.ID)) error {
	glance := time.NewTicker(max(s.o.Poll/10, 10*time.Millisecond))
	defer glance.Stop()
	var before map[string]string
	var asked time.Time
	for {
		if s.now().Sub(asked) >= s.o.Poll || s.exits(before) {
			asked = s.now()
			v, err := s.queue.since(ctx, asked, "")
			if err != nil {
				return err
			}
			after := s.marks(v)
			if before == nil {
				connected()
			} else {
				announce(before, after, changed)
			}
			before = after
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-glance.C:
		case <-s.poke:
			asked = time.Time{}
		}
	}
}

// announce calls changed for each difference, and for the capacity when there is any.
func announce(before, after map[string]string, changed func(id job.ID)) {
	if maps.Equal(before, after) {
		return
	}
	for dir, mark := range after {
		if was, ok := before[dir]; !ok || was != mark {
			changed(jobOf(dir))
		}
	}
	for dir := range before {
		if _, ok := after[dir]; !ok {
			changed(jobOf(dir))
		}
	}
	changed("")
}

// wrote is in the mark of a payload that has an exit.json.
const wrote = "exit "

// marks gives a word for how each payload stands that has not ended.
func (s *Slurm) marks(v *view) map[string]string {
	marks := map[string]string{}
	dirs, err := s.alive()
	if err != nil {
		return marks
	}
	for _, dir := range dirs {
		mark := ""
		if s.wrote(dir) {
			mark = wrote
		}
		for _, r := range v.rows[nameOf(dir)] {
			mark += fmt.Sprintf("%s %s %s %s;", r.id, r.state, r.reason, r.node)
			if over(r.state) {
				s.sinceEnd(dir)
			}
		}
		if s.settled(dir) {
			mark += "settled"
		}
		marks[dir] = mark
	}
	return marks
}

// exits reports whether a payload has got an exit.json since.
func (s *Slurm) exits(before map[string]string) bool {
	for dir, mark := range before {
		if (len(mark) < len(wrote) || mark[:len(wrote)] != wrote) && s.wrote(dir) {
			return true
		}
	}
	return false
}

func (s *Slurm) wrote(dir string) bool {
	_, err := s.root.Lstat(dir + "/" + exitFile)
	return err == nil
}
