package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/lean"
)

// Bounds of one report, and of the spec of an order.
const (
	maxTasks = 1000
	maxLines = 1000
	maxSpec  = 1 << 20 // bytes: lists and claims have those of many jobs
)

// reports commits what a worker reports of its jobs. The answer to one report that fails is its problem; among
// several, the problem is in the list.
func (s *Server) reports(w http.ResponseWriter, r *http.Request) error {
	return s.reported(w, r, false)
}

// updates commits what a worker reports in the middle of its work.
func (s *Server) updates(w http.ResponseWriter, r *http.Request) error { return s.reported(w, r, true) }

func (s *Server) reported(w http.ResponseWriter, r *http.Request, keep bool) error {
	b, err := bodyBy(r, lean.ReadReports)
	if err != nil {
		return err
	}
	b.Worker = workerOf(r, b.Worker)
	if err := checkWorker("report", b.Worker, b.Lease); err != nil {
		return err
	}
	if len(b.Reports) < 1 || len(b.Reports) > maxBatch {
		return job.Errorf(job.Invalid, "report", "", "1 to %d reports at once", maxBatch)
	}
	reports := make([]remote.Report, len(b.Reports))
	for i := range b.Reports {
		if err := checkReport(&b.Reports[i], keep); err != nil {
			return err
		}
		if reports[i], err = ReportOf(&b.Reports[i], keep); err != nil {
			return err
		}
		reports[i].Lease = seconds(b.Lease)
	}
	results, err := s.conclude(r.Context(), b.Worker, reports)
	if err != nil {
		return err
	}
	s.leases.settle(results, b.Worker)
	leases := make([]job.Lease, len(reports))
	for i := range reports {
		leases[i] = job.Lease{Job: reports[i].Job, Epoch: reports[i].Epoch}
	}
	s.registry.Reports(b.Worker, leases, results)
	if len(results) == 1 && results[0].Err != nil {
		return results[0].Err
	}
	return lean.Reply(w, func(text []byte) []byte { return lean.AppendResults(text, b.Worker, results, b.Lease > 0) })
}

func checkReport(r *api.Report, keep bool) error {
	n := 0
	for _, set := range []bool{r.Event != "", r.Wait != nil, r.Retry != "", r.Fail != "", r.Yield} {
		if set {
			n++
		}
	}
	switch {
	case r.Job == "" || r.Epoch <= 0:
		return job.Errorf(job.Invalid, "report", r.Job, "a report names a job and the epoch of its claim")
	case n > 1:
		return job.Errorf(job.Invalid, "report", r.Job, "a report has one of event, wait, retry, fail and yield")
	case keep && (n > 0 || r.Again || r.Children):
		return job.Errorf(job.Invalid, "report", r.Job,
			"an update has no event, wait, retry, fail, yield, again or children: report them")
	case r.After != 0 && (r.Retry == "" || r.After < 0 || r.After > 366*24*3600):
		return job.Errorf(job.Invalid, "report", r.Job, "after is for retry: 0 to %d seconds", 366*24*3600)
	case len(r.Tasks) > maxTasks || len(r.Messages) > maxTasks || len(r.Log) > maxLines:
		return job.Errorf(job.Invalid, "report", r.Job,
			"at most %d tasks, %d messages and %d log lines in one report", maxTasks, maxTasks, maxLines)
	}
	for i := range r.Messages {
		if err := CheckName("the key of a message", r.Messages[i].Key); err != nil {
			return err
		}
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		if err := cmp.Or(CheckName("the name of a task", t.Name), CheckName("the kind of a task", string(t.Kind)),
			CheckName("the state of a task", string(t.State))); err != nil {
			return err
		}
	}
	return nil
}

// ReportOf converts a report for the engine; keep: it leaves the claim as it is.
func ReportOf(r *api.Report, keep bool) (remote.Report, error) {
	to := remote.Report{
		Job: r.Job, Epoch: r.Epoch, Event: r.Event, Wait: r.Wait, Retry: r.Retry, After: seconds(r.After),
		Fail: r.Fail, Cause: r.Cause, Yield: r.Yield, Deadline: r.Deadline,
		Children: r.Children, Again: r.Again, Keep: keep,
		Data: r.Data, Merge: r.Merge, Message: r.Message, Priority: r.Priority, Tags: r.Tags, Words: r.Words,
		Bytes:    r.Bytes,
		Advanced: r.Advanced, Tasks: r.Tasks,
	}
	for _, m := range r.Messages {
		to.Messages = append(to.Messages, remote.Message(m))
	}
	for _, l := range r.Log {
		var level slog.Level
		if l.Level != "" {
			if err := level.UnmarshalText([]byte(strings.ToUpper(l.Level))); err != nil {
				return to, job.Errorf(job.Invalid, "report", r.Job,
					"the level of a log line is debug, info, warn or error, not %.40q", l.Level)
			}
		}
		to.Log = append(to.Log, remote.Line{Number: l.N, Level: level, Text: l.Text, Attrs: l.Attrs})
	}
	if p := r.Progress; p != nil {
		to.Progress = &job.Progress{Done: p.Done, Total: p.Total, Unit: p.Unit}
	}
	if r.Spawn != nil {
		to.Spawn = &remote.Spawn{Expected: r.Spawn.Expected, From: r.Spawn.From}
		for i := range r.Spawn.Jobs {
			to.Spawn.Jobs = append(to.Spawn.Jobs, childOf(&r.Spawn.Jobs[i]))
		}
	}
	return to, nil
}

// ParseReport reads the report of a command that works on a job under a claim: the members of a remote worker's
// report except job and epoch.
func ParseReport(text []byte, id job.ID, epoch int64) (remote.Report, error) {
	var r api.Report
	if err := Strict(text, &r); err != nil {
		return remote.Report{}, err
	}
	if r.Job != "" && r.Job != id || r.Epoch != 0 && r.Epoch != epoch || r.Again {
		return remote.Report{}, job.Errorf(job.Invalid, "report", id,
			"the report of a command has no job, epoch or again")
	}
	r.Job, r.Epoch = id, epoch
	if err := checkReport(&r, false); err != nil {
		return remote.Report{}, err
	}
	return ReportOf(&r, false)
}

func childOf(o *api.Order) remote.Child {
	return remote.Child{
		Kind: o.Kind, Priority: o.Priority, Group: o.Group, Owner: o.Owner, Key: o.Key, Tags: o.Tags,
		Words: o.Words, Requires: o.Requires, Bytes: o.Bytes, Due: o.Due, Deadline: o.Deadline, Spec: o.Spec,
		Note: o.Note, Actor: o.Actor,
	}
}

func orderOf(o *api.Order) engine.Order {
	return engine.Order{
		Kind: o.Kind, Priority: o.Priority, Group: o.Group, Owner: o.Owner, Key: o.Key, Tags: o.Tags,
		Words: o.Words, Requires: o.Requires, Bytes: o.Bytes, Due: o.Due, Deadline: o.Deadline, Spec: o.Spec,
		Note: o.Note, Actor: o.Actor,
	}
}

// create makes a job of a kind whose jobs people may create as they are; other kinds have operations of their own.
func (s *Server) create(w http.ResponseWriter, r *http.Request) error {
	o, err := Body[api.Order](r, true)
	if err != nil {
		return err
	}
	order := orderOf(&o)
	if order.By, order.Actor, err = ActorOf(r, "", o.Actor); err != nil {
		return err
	}
	order.Actor = cmp.Or(order.Actor, order.By.String())
	order.Owner = OwnerFor(r.Context(), o.Owner)
	if order.Key, err = KeyOf(r, o.Key, o); err != nil {
		return err
	}
	for name, text := range map[string]string{"group": o.Group, "owner": order.Owner} {
		if err := CheckName(name, text); err != nil {
			return err
		}
	}
	if err := errors.Join(CheckText("note", o.Note, MostNote), CheckGroup(r.Context(), o.Group)); err != nil {
		return err
	}
	spec, err := json.Marshal(o.Spec)
	if err != nil {
		return err
	}
	if len(spec) > maxSpec {
		return job.Errorf(job.Invalid, "create", "", "the spec has %d bytes, more than %d", len(spec), maxSpec)
	}
	switch work := s.Engine.Work(o.Kind); {
	case work == nil: // Submit refuses it
	case !work.Orders:
		return job.Errorf(job.Refused, "create", "",
			"jobs of the kind %s are created by the operations of their application", o.Kind)
	}
	j, err := s.Engine.Submit(r.Context(), order)
	if err != nil {
		return err
	}
	if !bytes.Equal(spec, j.Spec) || o.Group != j.Group {
		return job.Errorf(job.Conflict, "create", j.ID, "this idempotency key was used for another job")
	}
	w.Header().Set("Location", "/api/v1/jobs/"+string(j.ID))
	return ReplyJob(w, r, Made(w, r), j.Version, s.View(j))
}
