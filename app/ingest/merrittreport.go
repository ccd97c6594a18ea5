package ingest

import (
	"context"
	"encoding/json"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/job"
)

// configurations returns what Merritt's configurations of the jobs of a batch have of its submission. Jobs that were
// purged since the report have none.
func (a *App) configurations(ctx context.Context, batch job.ID) (map[job.ID]*report.Configuration, error) {
	b, err := a.engine.Store().Get(ctx, batch)
	if err != nil {
		return nil, err
	}
	var of record.BatchSpec
	if err := json.Unmarshal(b.Spec, &of); err != nil {
		return nil, err
	}
	all := map[job.ID]*report.Configuration{}
	err = a.eachJob(ctx, batch, func(j *job.Job) error {
		s, err := record.SpecOf(j)
		all[j.ID] = configuration(&of, &s)
		return err
	})
	return all, err
}

// configuration returns what Merritt's configuration of a job has of its submission.
func configuration(of *record.BatchSpec, s *record.JobSpec) *report.Configuration {
	c := &report.Configuration{Update: s.Update, Size: s.Size, DigestType: s.Digest.Type, DigestValue: s.Digest.Value,
		Note: s.Note, Notification: of.Notification}
	switch {
	case s.Description != nil:
		c.ResourceType, c.RetainTarget = s.Description.ResourceType, s.Description.RetainTarget
		c.DublinCore = s.Description.DublinCore
	case s.Described:
		c.ResourceType, c.RetainTarget, c.DublinCore = of.ResourceType, of.RetainTarget, of.DublinCore
	}
	return c
}
