package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// checkEvery is the longest pause between two checks of the schedules: the configuration or the clock may have changed.
const checkEvery = time.Minute

// afterTime is the pause after a time of a schedule, before it is checked.
const afterTime = time.Millisecond

// Run starts the runs of schedules when their times come, until ctx ends. It may run in several servers on one store:
// the leader's starts them. Two that lead for a moment start the same run once.
func (a *App) Run(ctx context.Context) error {
	ended := make(chan struct{}, 1)
	watch, stop := context.WithCancel(ctx)
	defer stop()
	a.engine.Store().Watch(watch, func(hints []job.Hint) {
		if slices.ContainsFunc(hints, func(h job.Hint) bool { return h.Ended && h.Kind == Kind }) {
			select {
			case ended <- struct{}{}:
			default:
			}
		}
	})
	for {
		next, err := a.due(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			a.options.Log.Error("schedules", "error", err)
		}
		pause := checkEvery
		if !next.IsZero() {
			pause = min(pause, max(next.Sub(a.now())+afterTime, afterTime))
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-ended:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (a *App) now() time.Time { return a.engine.Clock().Now() }

// due starts the runs that are due, and gives the next time of any schedule; zero: there is none. While the clock is
// in doubt, or another server leads, nothing is due. The error of one schedule does not keep the others.
func (a *App) due(ctx context.Context) (next time.Time, err error) {
	if !a.engine.Leads() {
		return time.Time{}, nil
	}
	if _, ok := a.engine.Clock().Before(0); !ok {
		return time.Time{}, nil
	}
	all := a.options.Schedules()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at, one := a.start(ctx, name, all[name])
		if ctx.Err() != nil {
			return next, ctx.Err()
		}
		if one != nil {
			a.options.Log.Error("schedule", "name", name, "error", one)
			continue
		}
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next, nil
}

// start starts a run of a schedule if one is due, and gives the next time; zero: the schedule is paused. Of several
// times that were missed, only the newest is caught up. While a run is unfinished, nothing is due.
func (a *App) start(ctx context.Context, name string, s Schedule) (next time.Time, err error) {
	r, err := parseRule(s.Cron, s.TimeZone)
	if err != nil {
		return time.Time{}, err
	}
	now := a.now().UTC()
	h, err := a.past(ctx, name)
	if err != nil {
		return time.Time{}, err
	}
	if !s.Paused {
		next = r.next(now)
	}
	switch {
	case h.unfinished != "":
		return next, nil
	case h.last == nil || !sameTimes(&h.last.Schedule, &s):
		return next, a.submit(ctx, Order{Name: name, Schedule: s, At: now, Begins: true}, "after/"+string(h.newest))
	case s.Paused:
		return next, nil
	}
	at, earlier := r.newest(h.last.At, now)
	if at.IsZero() {
		return next, nil
	}
	o := Order{Name: name, Schedule: s, At: at}
	if earlier {
		o.Since = h.last.At
	}
	return next, a.submit(ctx, o, stamp(at)+"/after/"+string(h.newest))
}

// sameTimes reports whether two schedules have the same times. Those of a changed one count from the change on. So do
// those of one that was paused: the times in the pause were not missed.
func sameTimes(a, b *Schedule) bool {
	return a.Cron == b.Cron && a.TimeZone == b.TimeZone && a.Paused == b.Paused
}

// past is what the records have of the runs of a schedule.
type past struct {
	newest     job.ID // of all runs; empty: there is none
	unfinished job.ID // empty: all have ended
	last       *Order // of the newest run from which later ones count; nil: there is none
}

// pastPage is the number of runs that are read at once. A page is enough but after many manual dry runs.
const pastPage = 100

// past reads the newest runs, back to the one from which the times count.
func (a *App) past(ctx context.Context, name string) (h past, err error) {
	for q := (job.Query{Kinds: []job.Kind{Kind}, Tag: tagOf(name), Limit: pastPage}); ; {
		page, err := a.engine.Store().List(ctx, q)
		if err != nil {
			return h, err
		}
		for i := range page.Jobs {
			if err := h.add(&page.Jobs[i]); err != nil {
				return h, err
			}
		}
		if q.After = page.Next; h.last != nil || q.After == "" {
			return h, nil
		}
	}
}

// add adds a run that is older than those before.
func (h *past) add(j *job.Job) error {
	h.newest = cmp.Or(h.newest, j.ID)
	if !j.Ended {
		h.unfinished = j.ID
	}
	var o Order
	if err := json.Unmarshal(j.Spec, &o); err != nil {
		return fmt.Errorf("run %s: %w", j.ID, err)
	}
	if h.last == nil && o.observes() {
		h.last = &o
	}
	return nil
}

// tagOf is the tag of the runs of a schedule.
func tagOf(name string) string { return "schedule=" + name }

// submit creates a run. Its key has what the decision was made from, so that two servers that decide the same create
// one run.
func (a *App) submit(ctx context.Context, o Order, key string) error {
	_, err := a.create(ctx, o, engine.Order{
		Key: ownKeys + o.Name + "/" + key, By: lifecycle.Engine, Actor: "schedule/" + o.Name,
	})
	return err
}

// create creates a run; as has its key and who orders it.
func (a *App) create(ctx context.Context, o Order, as engine.Order) (job.Job, error) {
	as.Kind, as.Spec, as.Group = Kind, o, o.Schedule.Source
	as.Tags = []string{tagOf(o.Name), "source=" + o.Schedule.Source}
	return a.engine.Submit(ctx, as)
}

// Start starts a run of a schedule now, for a person. A second request with the same key gives the run of the
// first one. Errors: NotFound; Conflict for a key of another request; Unavailable.
func (a *App) Start(ctx context.Context, name string, r api.StartSchedule) (job.Job, error) {
	s, ok := a.options.Schedules()[name]
	if !ok {
		return job.Job{}, job.Errorf(job.NotFound, "schedule", "", "there is no schedule %.100q: stagepost archive "+
			"schedules lists them", name)
	}
	if strings.HasPrefix(r.Key, ownKeys) {
		return job.Job{}, job.Errorf(job.Invalid, "schedule", "", "keys that begin with %s are those of the scheduler",
			ownKeys)
	}
	if a.engine == nil {
		return job.Job{}, job.Errorf(job.Unavailable, "schedule", "", "the engine does not run yet")
	}
	s.DryRun = s.DryRun || r.DryRun
	j, err := a.create(ctx, Order{Name: name, Schedule: s, At: a.now().UTC(), ByHand: true},
		engine.Order{Key: r.Key, By: lifecycle.Operator, Actor: r.Actor, Note: r.Note})
	if err != nil {
		return j, err
	}
	var was Order
	if err := json.Unmarshal(j.Spec, &was); err != nil || was.Name != name || was.Schedule.DryRun != s.DryRun {
		return job.Job{}, job.Errorf(job.Conflict, "schedule", j.ID, "the key was used for another request")
	}
	return j, nil
}

// ownKeys is the prefix of the keys that the scheduler makes.
const ownKeys = "schedule/"

// Status is a schedule with its runs.
type Status struct {
	Name     string    `json:"name"`
	Schedule Schedule  `json:"schedule"`
	Next     time.Time `json:"next,omitzero"`  // zero: it is paused
	Last     *job.Job  `json:"last,omitempty"` // the newest run, as GET /api/v1/jobs/{id} gives it

	Waiting []catalog.Waiting `json:"waiting,omitempty"` // activities that failed, and are not tried again yet
}

// waiting lists the activities of a schedule that failed, and are not tried again yet while they have the same content.
// The courses of the schedule are those of its newest run.
func (a *App) waiting(ctx context.Context, s *Status) ([]catalog.Waiting, error) {
	all, err := a.options.Catalog.Waiting(ctx, s.Schedule.Source, s.Schedule.backoff(), a.now())
	if err != nil || len(all) == 0 {
		return nil, err
	}
	courses := s.Schedule.chosen()
	var r Record
	if s.Last != nil && json.Unmarshal(s.Last.Data, &r) == nil && r.Courses != nil {
		courses = r.Courses
	}
	if courses == nil {
		return all, nil
	}
	return slices.DeleteFunc(all, func(w catalog.Waiting) bool {
		return w.Course != "" && !slices.Contains(courses, w.Course)
	}), nil
}

// Statuses lists the schedules by name.
func (a *App) Statuses(ctx context.Context) ([]Status, error) {
	all := a.options.Schedules()
	list := []Status{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := Status{Name: name, Schedule: all[name]}
		if r, err := parseRule(one.Schedule.Cron, one.Schedule.TimeZone); err == nil && !one.Schedule.Paused {
			one.Next = r.next(a.now())
		}
		page, err := a.engine.Store().List(ctx, job.Query{Kinds: []job.Kind{Kind}, Tag: tagOf(name), Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(page.Jobs) > 0 {
			one.Last = &page.Jobs[0]
		}
		if one.Waiting, err = a.waiting(ctx, &one); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}
