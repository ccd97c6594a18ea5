package archivehttp

import (
	"cmp"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// mostWaiting is the number of waiting activities that the list of schedules has of each.
const mostWaiting = 100

// schedules answers with the shape of api.ArchiveSchedules.
func (s *Handlers) schedules(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	all, err := app.Schedules(r.Context())
	if err != nil {
		return err
	}
	list := make([]api.ArchiveSchedule, len(all))
	for i := range all {
		one := &all[i]
		list[i] = api.ArchiveSchedule{
			Name: one.Name, Source: one.Schedule.Source, Cron: one.Schedule.Cron, TimeZone: one.Schedule.TimeZone,
			DryRun: one.Schedule.DryRun, Paused: one.Schedule.Paused, Next: one.Next,
		}
		list[i].Waits = len(one.Waiting)
		for _, w := range one.Waiting[:min(len(one.Waiting), mostWaiting)] {
			list[i].Waiting = append(list[i].Waiting, api.ArchiveWaiting{
				Course: w.Course, Activity: w.Activity, Name: w.Name, Failures: w.Failures, Last: w.Last, Until: w.Next,
				Cause: w.Cause, Job: job.ID(w.Job),
			})
		}
		if one.Last != nil {
			view := s.View(*one.Last)
			list[i].Last = &view
		}
	}
	return server.Reply(w, api.ArchiveSchedules{Schedules: list})
}

// startSchedule starts a run of a schedule.
func (s *Handlers) startSchedule(w http.ResponseWriter, r *http.Request) error {
	app, o, err := body[api.StartSchedule](s, r, false)
	if err != nil {
		return err
	}
	by, actor, err := server.ActorOf(r, "", o.Actor)
	if err != nil {
		return err
	}
	o.Actor = cmp.Or(actor, by.String())
	if o.Key, err = server.KeyOf(r, o.Key, o); err != nil {
		return err
	}
	if err := server.CheckText("note", o.Note, server.MostNote); err != nil {
		return err
	}
	j, err := app.StartSchedule(r.Context(), r.PathValue("schedule"), o)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/jobs/"+string(j.ID))
	return server.ReplyJob(w, r, server.Made(w, r), j.Version, s.View(j))
}
