package bulk

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Preview is the effect that a request would have. Lifecycles are checked for every job, rules of applications for
// the sample only.
type Preview = api.BulkPreview

// StateCount counts the matches in one state of one kind.
type StateCount = api.BulkStateCount

// Count counts the matches of one group or cause.
type Count = api.BulkCount

// Sample is one of the matches.
type Sample = api.BulkSample

const sampleSize = 10

// survey collects a preview.
type survey struct {
	app      *App
	preview  Preview
	states   map[job.KindState]*StateCount
	groups   map[string]*Count
	causes   map[string]*Count
	verdicts map[standing]verdict
}

// standing is the state of a job in a version of its lifecycle.
type standing struct {
	kind job.Kind
	at   lifecycle.Position
}

type verdict struct {
	refusal error
	can     []lifecycle.Event
}

// Preview returns the effect of a request without executing it. Note and expected number are optional.
func (a *App) Preview(ctx context.Context, r Request) (Preview, error) {
	if err := a.check(&r); err != nil {
		return Preview{}, err
	}
	s := &survey{
		app: a, preview: Preview{Event: r.Event, Sample: []Sample{}}, states: map[job.KindState]*StateCount{},
		groups: map[string]*Count{},
		causes: map[string]*Count{}, verdicts: map[standing]verdict{},
	}
	if err := a.each(ctx, query(&r, time.Time{}, 1000), func(j *job.Job) error { return s.add(ctx, j) }); err != nil {
		return Preview{}, err
	}
	return s.result(), nil
}

// verdict reports whether the lifecycle has the event in the state of the job, and which events it has.
func (s *survey) verdict(j *job.Job) verdict {
	at := standing{j.Kind, j.Position}
	v, ok := s.verdicts[at]
	if !ok {
		life := s.app.engine.Life(j.Kind)
		_, v.refusal = life.Next(j.Position, s.preview.Event, lifecycle.Operator)
		v.can = life.Can(j.Position, lifecycle.Operator)
		s.verdicts[at] = v
	}
	return v
}

func (s *survey) add(ctx context.Context, j *job.Job) error {
	v := s.verdict(j)
	place := job.KindState{Kind: j.Kind, State: j.State}
	state := s.states[place]
	if state == nil {
		state = &StateCount{Kind: j.Kind, State: j.State, Can: []lifecycle.Event{}}
		s.states[place] = state
	}
	for _, e := range v.can {
		if !slices.Contains(state.Can, e) {
			state.Can = append(state.Can, e)
		}
	}
	state.Jobs++
	state.Bytes += j.Bytes
	if v.refusal == nil {
		state.Legal++
		s.preview.Legal++
	}
	s.preview.Count++
	s.preview.Bytes += j.Bytes
	tally(s.groups, j.Group, j.Bytes)
	tally(s.causes, j.Cause, j.Bytes)
	if len(s.preview.Sample) == sampleSize {
		return nil
	}
	one := Sample{ID: j.ID, Kind: j.Kind, State: j.State, Group: j.Group, Owner: j.Owner, Cause: j.Cause,
		Message: j.Message}
	var err error
	if one.Refused, err = s.refusal(ctx, j, v); err != nil {
		return err
	}
	if one.Refused != "" && v.refusal == nil {
		s.preview.Refused++
	}
	s.preview.Sample = append(s.preview.Sample, one)
	return nil
}

// refusal also checks the application's rules.
func (s *survey) refusal(ctx context.Context, j *job.Job, v verdict) (string, error) {
	if v.refusal != nil {
		return v.refusal.Error(), nil
	}
	x, err := s.app.explainer.Why(ctx, j.ID, time.Time{})
	var e *job.Error
	switch {
	case job.KindOf(err) == job.NotFound && errors.As(err, &e):
		return "it is gone", nil
	case err != nil:
		return "", err
	}
	for _, m := range x.Moves {
		if m.Event == s.preview.Event {
			return m.Refused, nil
		}
	}
	return "", nil
}

func tally(of map[string]*Count, name string, bytes int64) {
	c := of[name]
	if c == nil {
		c = &Count{Name: name}
		of[name] = c
	}
	c.Jobs++
	c.Bytes += bytes
}

// result returns the preview with the largest numbers first.
func (s *survey) result() Preview {
	p := s.preview
	p.States = []StateCount{}
	for _, one := range s.states {
		p.States = append(p.States, *one)
	}
	slices.SortFunc(p.States, func(a, b StateCount) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	})
	p.Groups, p.Causes = ordered(s.groups), ordered(s.causes)
	return p
}

func ordered(of map[string]*Count) []Count {
	all := []Count{}
	for _, one := range of {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a,
		b Count) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Name, b.Name))
	})
	return all
}
