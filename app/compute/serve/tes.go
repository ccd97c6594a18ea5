package computeserve

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/module"
)

// openTES gives what takes tasks of GA4GH TES and fetches their inputs; nil if the settings name no images.
func openTES(h *module.Host, s *Settings, services []compute.Service) (*tes.Adapter, error) {
	images, err := tes.ParseImages(s.TESImages)
	if err != nil {
		return nil, cli.Usagef("compute.tes.images: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(h.Own, "tes")); err != nil { // where older versions had inputs while they came
		return nil, err
	}
	if len(images) == 0 {
		return nil, nil
	}
	for image, service := range images {
		if !slices.ContainsFunc(services, func(one compute.Service) bool { return one.Name == service }) {
			return nil, cli.Usagef("compute.tes.images: %s: there is no service %q", image, service)
		}
	}
	o := tes.Options{Images: images, Fetch: fetch.Policy{MaxBytes: h.UploadBytes}, Log: h.Log}
	o.Roots, o.Outputs = config.List(s.TESRoots), config.List(s.TESOutput)
	a, err := tes.New(o)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return a, nil
}

// announceTES has the completion of a task's job bring the message that copies its outputs, beside those of the
// application.
func (c *App) announceTES(works []engine.Work) []engine.Work {
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
func (c *App) deliverTES(ctx context.Context, m job.Message) error {
	return c.tes.Deliver(c.engine.Store().Get, c.App)(ctx, m)
}
