package transfer

import (
	"context"
	"fmt"

	"github.com/stagepost/stagepost/job"
)

// page is how many messages and entries of the audit log are read at once.
const page = 1000

// Copy copies all content into a target that was cleared. It needs the memory of some pages. done is called after each
// write with the number of its rows; an error of it ends the copy.
func Copy(ctx context.Context, from Source, to Target, done func(rows int64) error) error {
	put := func(p *Part) error {
		if err := to.Put(ctx, p); err != nil {
			return err
		}
		return done(p.rows())
	}
	err := eachPart(ctx, from, func(p *Part) error {
		for i := range p.Jobs {
			if err := p.Jobs[i].check(); err != nil {
				return err
			}
		}
		return put(p)
	})
	if err != nil {
		return err
	}
	once, err := from.Once(ctx)
	if err != nil {
		return err
	}
	if err := to.PutOnce(ctx, &once); err != nil {
		return err
	}
	return done(0)
}

// eachPart calls do with all content in parts: jobs, messages, the audit log, holds.
func eachPart(ctx context.Context, from Source, do func(*Part) error) error {
	for row := int64(0); ; {
		jobs, err := from.Jobs(ctx, row)
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			break
		}
		row = jobs[len(jobs)-1].Row
		if err := do(&Part{Jobs: jobs}); err != nil {
			return err
		}
	}
	for last := int64(0); ; {
		list, err := from.Messages(ctx, last, page)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		last = list[len(list)-1].Number
		if err := do(&Part{Messages: list}); err != nil {
			return err
		}
	}
	if err := eachAudit(ctx, from, do); err != nil {
		return err
	}
	holds, err := from.Holds(ctx)
	if err != nil || len(holds) == 0 {
		return err
	}
	return do(&Part{Holds: holds})
}

// eachAudit calls do with the audit log in parts, whose chain of hashes it checks.
func eachAudit(ctx context.Context, from Source, do func(*Part) error) error {
	for last := (*job.Audit)(nil); ; {
		after := int64(0)
		if last != nil {
			after = last.Seq
		}
		list, err := from.Audit(ctx, after, page)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := job.VerifyAudit(last, list); err != nil {
			return damaged("", err)
		}
		last = &list[len(list)-1]
		if err := do(&Part{Audit: list}); err != nil {
			return err
		}
	}
}

// check verifies the history of a job against its record, as [job.Verify] does without a lifecycle.
func (j *Job) check() error {
	var prev job.Hash
	for i := range j.History {
		e := j.History[i]
		if e.Newer {
			return job.Errorf(job.Refused, "copy", j.Record.ID, "entry %d of its history was written by a newer "+
				"version: use a newer program", i+1)
		}
		e.Seal(prev)
		if e.Seq != int64(i+1) || e.Hash != j.History[i].Hash {
			return damaged(j.Record.ID, fmt.Errorf("entry %d of its history was changed or is missing", i+1))
		}
		prev = e.Hash
	}
	if int64(len(j.History)) != j.Record.Seq || prev != j.Record.Head {
		return damaged(j.Record.ID, fmt.Errorf("its history does not end as its record states"))
	}
	return nil
}

func damaged(id job.ID, err error) error {
	return job.Errorf(job.Internal, "copy", id, "the source is damaged: %w; stagepost admin verify lists what is "+
		"damaged, and nothing is migrated before it was restored or accepted", err)
}

func (p *Part) rows() int64 {
	n := len(p.Jobs) + len(p.Messages) + len(p.Audit) + len(p.Holds)
	for i := range p.Jobs {
		n += len(p.Jobs[i].History) + len(p.Jobs[i].Tasks)
	}
	return int64(n)
}
