package rules

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Create creates jobs, all or none, as [job.Jobs] defines. It returns their records in order, those of existing jobs
// among them. They are valid until the writes are reset, and change if a claim is granted.
func Create(w *Writes, jobs []job.Created) ([]*job.Job, error) {
	m := w.mark()
	w.answer = w.answer[:0]
	for i := range jobs {
		j, err := w.create(&jobs[i], nil, m)
		if err != nil {
			w.back(m)
			return nil, err
		}
		w.answer = append(w.answer, j)
	}
	for i, j := range w.answer {
		w.answer[i] = w.newest(j) // it may have got children
	}
	return w.answer, nil
}

// create creates one job. of is the write of its parent if that is a draft, or nil; from is the state of the writes
// before the operation.
func (w *Writes) create(c *job.Created, of *JobWrite, from mark) (*job.Job, error) {
	old, err := w.existing(&c.Job)
	if err != nil {
		return nil, err
	}
	if old != nil && c.Job.Parent != "" && old.Parent != c.Job.Parent {
		return nil, job.Errorf(job.Invalid, "create", c.Job.ID,
			"its id or key belongs to %s, which is not of batch %s", old.ID, c.Job.Parent)
	}
	if old != nil {
		return old, nil
	}
	if err := checkNew(c); err != nil {
		return nil, err
	}
	if err := w.join(&c.Job, of, from); err != nil {
		return nil, err
	}
	number, err := w.number(&c.Job, from)
	if err != nil {
		return nil, err
	}
	j := w.draft(nil, c.Job.Created)
	j.after, j.Event, j.Chain = c.Job, &c.Event, c.Chain
	j.after.Number = number
	j.after.Own()
	w.add(j)
	w.post(c.Outbox)
	if c.Event.By&lifecycle.Operator != 0 {
		w.note(job.AuditedCreate(c))
	}
	return j.After, nil
}

// join counts a new job in the record of its parent, which may be of the same operation.
func (w *Writes) join(j *job.Job, of *JobWrite, from mark) error {
	if j.Parent == "" {
		return nil
	}
	if of == nil {
		parent, err := w.job(j.Parent)
		if err != nil {
			return err
		}
		if i := w.ids.find(j.Parent); i >= from.jobs {
			of = w.Jobs[i]
		} else {
			of = w.draft(parent, j.Created)
			of.after.Version++
			w.add(of)
		}
	}
	if parent := of.After; parent.Ended {
		return job.Errorf(job.Refused, "create", parent.ID, "it has ended (%s) and takes no more jobs", parent.State)
	}
	of.After.Children.Add(j, 1)
	if c := of.After.Children; c.Created() > c.Expected {
		return job.Errorf(job.Refused, "create", j.Parent, "it expects %d jobs, %d would be too many", c.Expected,
			c.Created())
	}
	return nil
}

// number returns the number of a new job: its own, which must be higher than all earlier ones of its kind, or the next.
// Lists find jobs by number because rows and numbers increase together.
func (w *Writes) number(j *job.Job, from mark) (int64, error) {
	last, n := w.Number(j.Kind), j.Number
	switch {
	case n < 0 || n > job.LastNumber:
		return 0, job.Errorf(job.Invalid, "create", j.ID, "number %d is not within 1..%d", n, job.LastNumber)
	case n == 0 && last >= job.LastNumber:
		return 0, job.Errorf(job.Refused, "create", j.ID, "no number of kind %s is left after %d", j.Kind, last)
	case n == 0:
		n = last + 1
	case n <= last:
		return 0, job.Errorf(job.Conflict, "create",
			j.ID, "number %d of kind %s is not free: it must be higher than %d, the last that was given", n, j.Kind,
			last)
	}
	for i := from.numbers; i < len(w.numbers); i++ {
		if w.numbers[i].Kind == j.Kind {
			w.numbers[i].Number = n
			return n, nil
		}
	}
	w.numbers = append(w.numbers, KindNumber{j.Kind, n})
	return n, nil
}
