package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// openTES makes what takes tasks of GA4GH TES, if the settings name images.
func (c *computeApp) openTES(r *running, s *settings) error {
	images, err := tes.ParseImages(s.ComputeTESImages)
	if err != nil {
		return usagef("compute.tes.images: %v", err)
	}
	if len(images) == 0 {
		return nil
	}
	for image, service := range images {
		if !slices.ContainsFunc(c.Services(), func(one compute.Service) bool { return one.Name == service }) {
			return usagef("compute.tes.images: %s: there is no service %q", image, service)
		}
	}
	o := tes.Options{Dir: filepath.Join(r.Data, "tes"), Images: images, Fetch: fetch.Policy{MaxBytes: s.UploadBytes}, Log: r.log}
	o.Roots, o.Outputs = directories(s.ComputeTESRoots), directories(s.ComputeTESOutput)
	if c.tes, err = tes.New(o); err != nil {
		return usage(err)
	}
	return nil
}

// directories reads a list with commas.
func directories(text string) (all []string) {
	for dir := range strings.SplitSeq(text, ",") {
		if dir = strings.TrimSpace(dir); dir != "" {
			all = append(all, dir)
		}
	}
	return all
}

// announceTES has the completion of a task's job bring the message that copies its outputs, beside those of the application.
func (c *computeApp) announceTES(works []engine.Work) []engine.Work {
	if c.tes == nil {
		return works
	}
	for i := range works {
		if before := works[i].Announce; works[i].Life == compute.JobLife {
			works[i].Announce = func(j *job.Job, change *job.Change) []job.Message {
				return append(before(j, change), c.tes.Announce(j, change)...)
			}
		}
	}
	return works
}

// deliverTES copies the outputs of a task.
func (c *computeApp) deliverTES(ctx context.Context, m job.Message) error {
	return c.tes.Deliver(c.engine.Store().Get, c.App)(ctx, m)
}
