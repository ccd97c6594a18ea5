package flowhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/flowfile"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// Flows are task graphs that run as jobs. Factory flowfile.FactoryName makes those that are written down in files.
type Flows interface {
	// File reads a flow file as the factory will: with what files may do here.
	File(text []byte) (*flowfile.File, error)
	// The rest is as in [durable.Flows].
	Submit(ctx context.Context, e *engine.Engine, o durable.Order) (job.Job, error)
	View(ctx context.Context, store job.Store, id job.ID) (*durable.View, error)
	Signal(ctx context.Context, e *engine.Engine, id job.ID, s durable.Signal) error
	MarkReverted(ctx context.Context, e *engine.Engine, task string, a operator.Act) (job.Job, error)
}

// Bounds of what is notified of and to flows.
const (
	mostFlow     = 10 << 20 // bytes of an order
	mostFlowFile = 1 << 20  // bytes of a file
	mostInputs   = 1000     // of a flow
	mostSignal   = 1 << 20  // bytes of a signal's value
	mostShown    = 4 << 10  // bytes of a value that is shown as it is
	mostBegin    = 200      // characters that are shown of a larger one
	mostTrace    = 16 << 10 // bytes of a trace that are shown
)

func (s *Handlers) flows() (Flows, error) {
	if s.Flows == nil {
		return nil, problem.Absent("flow", "this server runs no flows", "module flow")
	}
	return s.Flows, nil
}

// oneFlow gives the flow of a request, to be read only: others may have the same view of it.
func (s *Handlers) oneFlow(r *http.Request) (*durable.View, error) {
	j, app, err := s.foundFlow(r)
	if err != nil {
		return nil, err
	}
	return s.readFlow(r.Context(), app, j.ID)
}

func (s *Handlers) readFlow(ctx context.Context, app Flows, id job.ID) (*durable.View, error) {
	return s.views.share(ctx, id, func(ctx context.Context) (*durable.View, error) {
		return app.View(ctx, s.Store, id)
	})
}

// foundFlow gives the record of the flow of a request. That there is no such job is stated also where there are no
// flows at all.
func (s *Handlers) foundFlow(r *http.Request) (job.Job, Flows, error) {
	j, err := s.Store.Get(r.Context(), server.JobID(r))
	if err != nil {
		return j, nil, err
	}
	if j.Kind != durable.Kind {
		return j, nil, job.Errorf(job.NotFound, "flow", j.ID, "it is no flow but of kind %s: /api/v1/jobs/%s has it",
			j.Kind, j.ID)
	}
	app, err := s.flows()
	return j, app, err
}

// submitFlow creates a flow.
func (s *Handlers) submitFlow(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.flows()
	if err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostFlow)
	o, err := server.Decode[api.FlowOrder](r, true)
	if err != nil {
		return err
	}
	if o.Key, err = server.KeyOf(r, o.Key, o); err != nil {
		return err
	}
	if err := checkOrder(&o); err != nil {
		return err
	}
	if _, o.Actor, err = server.ActorOf(r, "", o.Actor); err != nil {
		return err
	}
	o.Owner = server.OwnerFor(r.Context(), o.Owner)
	order, err := orderFlow(app, &o)
	if err != nil {
		return err
	}
	j, err := app.Submit(r.Context(), s.Engine, order)
	if err != nil {
		return err
	}
	w.Header().Set("Location", flowPath(j.ID))
	return server.ReplyJob(w, r, server.Made(w, r), j.Version, s.View(j))
}

// orderFlow makes the order of a request. What is wrong with a file is reported by line and column.
func orderFlow(app Flows, o *api.FlowOrder) (durable.Order, error) {
	order := durable.Order{
		Factory: o.Factory, Args: o.Args, Inject: flow.Values{}, Priority: o.Priority, Group: o.Group, Owner: o.Owner,
		Key: o.Key, Requires: o.Requires, Due: o.Due, Deadline: o.Deadline,
		Actor: o.Actor, Note: o.Note,
		Settings: durable.Settings{DeferReverts: o.DeferReverts, NeverResolve: o.NeverResolve,
			RevertErrors: o.RevertErrors, KeepAtDeadline: o.KeepAtDeadline, Workers: o.Workers},
	}
	inputs := map[string]flow.Value{}
	for name, text := range o.Inputs {
		var v flow.Value
		if err := json.Unmarshal(text, &v); err != nil {
			return order, job.Errorf(job.Invalid, "flow", "", "the input %s: %w", name, err)
		}
		inputs[name], order.Inject[name] = v, v
	}
	if o.File == "" {
		return order, nil
	}
	file, err := app.File([]byte(o.File))
	if err != nil {
		return order, job.Errorf(job.Invalid, "flow", "", "%w", err)
	}
	args := flowfile.Arguments{File: o.File, Inputs: inputs}
	if order.Inject, err = file.Values(args.Values()); err != nil {
		return order, job.Errorf(job.Invalid, "flow", "", "%w", err)
	}
	order.Factory = flowfile.FactoryName
	order.Settings.KeepAtDeadline = o.KeepAtDeadline || file.KeepAtDeadline()
	if order.Args, err = json.Marshal(&args); err != nil {
		return order, job.Errorf(job.Internal, "flow", "", "%w", err)
	}
	return order, nil
}

func flowPath(id job.ID) string { return "/api/v1/flows/" + url.PathEscape(string(id)) }

// checkOrder examines what can be seen without making the flow.
func checkOrder(o *api.FlowOrder) error {
	wrong := func(format string, args ...any) error { return job.Errorf(job.Invalid, "flow", "", format, args...) }
	switch {
	case (o.File == "") == (o.Factory == ""):
		return wrong("give either file, the text of a flow file, or factory, a name")
	case o.File != "" && len(o.Args) > 0:
		return wrong("args are for factories; a file has inputs")
	case len(o.File) > mostFlowFile:
		return problem.Refuse(http.StatusRequestEntityTooLarge, job.Invalid, "the file is larger than %d bytes",
			mostFlowFile)
	case len(o.Inputs) > mostInputs:
		return wrong("there are more than %d inputs", mostInputs)
	case o.Workers < 0 || o.Workers > 1000:
		return wrong("workers must be 0 to 1000, not %d", o.Workers)
	case o.Priority != nil && (*o.Priority < job.FirstPriority || *o.Priority > job.LastPriority):
		return wrong("priority must be %d to %d, not %d", job.FirstPriority, job.LastPriority, *o.Priority)
	case !o.Due.IsZero() && !o.Deadline.IsZero() && !o.Due.Before(o.Deadline):
		return wrong("it is due at %s, which is not before its deadline", o.Due.UTC().Format(time.RFC3339))
	}
	for name := range o.Inputs {
		if err := checkName("an input", name); err != nil {
			return err
		}
	}
	for _, name := range []struct{ what, text string }{{"group", o.Group}, {"owner", o.Owner}, {"factory", o.Factory}} {
		if err := server.CheckName(name.what, name.text); err != nil {
			return err
		}
	}
	return server.CheckText("note", o.Note, server.MostNote)
}

// checkName refuses what cannot be shown as a name.
func checkName(what, name string) error {
	if name == "" {
		return job.Errorf(job.Invalid, "flow", "", "the name of %s is missing", what)
	}
	return server.CheckName("the name of "+what, name)
}

// showFlow gives a flow as it stands.
func (s *Handlers) showFlow(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	values := p.Flag("values")
	if err := p.Err(); err != nil {
		return err
	}
	f, err := s.oneFlow(r)
	if err != nil {
		return err
	}
	v, err := s.viewFlow(f, values != nil && *values)
	if err != nil {
		return err
	}
	return server.ReplyJob(w, r, http.StatusOK, f.Job.Version, v)
}

// signalFlow passes a signal to a flow.
func (s *Handlers) signalFlow(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if _, _, err := s.foundFlow(r); err != nil {
		return err
	}
	sig, err := server.Decode[api.FlowSignal](r, true)
	if err != nil {
		return err
	}
	if err := checkName("a signal", sig.Name); err != nil {
		return err
	}
	if len(sig.Value) > mostSignal {
		return problem.Refuse(http.StatusRequestEntityTooLarge, job.Invalid, "the value is larger than %d bytes",
			mostSignal)
	}
	if len(sig.Value) == 0 {
		sig.Value = json.RawMessage("null")
	}
	if err := server.CheckText("note", sig.Note, server.MostNote); err != nil {
		return err
	}
	by, actor, err := server.ActorOf(r, "", sig.Actor)
	if err != nil {
		return err
	}
	sig.Actor = actor
	var value flow.Value
	if err := json.Unmarshal(sig.Value, &value); err != nil {
		return job.Errorf(job.Invalid, "signal", server.JobID(r), "the value: %w", err)
	}
	if err := s.Flows.Signal(r.Context(), s.Engine, server.JobID(r),
		durable.Signal{Name: sig.Name, Value: value, Actor: sig.Actor, Early: sig.Early}); err != nil {
		return s.ExplainRefusal(r, err, "signal", lifecycle.Operator)
	}
	if sig.Note != "" {
		actor := cmp.Or(sig.Actor, "operator")
		err := s.Engine.Operator().Audit(r.Context(), operator.Entry{By: by, Actor: actor, Event: "signal",
			Object: string(server.JobID(r)) + " " + sig.Name, Note: sig.Note})
		if err != nil {
			return err
		}
	}
	j, err := s.Store.Get(r.Context(), server.JobID(r))
	if err != nil {
		return err
	}
	return server.ReplyJob(w, r, http.StatusOK, j.Version, s.View(j))
}

// markReverted notes that a person has manually rolled back a task.
func (s *Handlers) markReverted(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if _, _, err := s.foundFlow(r); err != nil {
		return err
	}
	m, err := server.Decode[api.FlowMark](r, true)
	if err != nil {
		return err
	}
	if err := checkName("a task", m.Task); err != nil {
		return err
	}
	by, actor, err := server.ActorOf(r, m.As, m.Actor)
	if err != nil {
		return err
	}
	if m.Version, err = server.VersionOf(r, m.Version); err != nil {
		return err
	}
	j, err := s.Flows.MarkReverted(r.Context(), s.Engine, m.Task,
		operator.Act{Job: server.JobID(r), By: by, Actor: actor, Note: m.Note, Version: m.Version})
	if err != nil {
		return err
	}
	return server.ReplyJob(w, r, http.StatusOK, j.Version, s.View(j))
}

// viewFlow makes the wire's form of a flow.
func (s *Handlers) viewFlow(f *durable.View, values bool) (api.Flow, error) {
	v := api.Flow{
		Job: s.View(f.Job), Name: f.Data.Name, Factory: f.Spec.Factory, Atoms: make([]api.FlowAtom, len(f.Atoms)),
		Awaits: f.Awaits, Remains: f.Remains,
	}
	if v.Awaits == nil {
		v.Awaits = []string{}
	}
	self := flowPath(f.Job.ID)
	for name, path := range map[string]string{"flow": self, "graph": self + "/graph.svg",
		"timeline": self + "/timeline.svg", "signal": self + "/signal", "page": pagePath(f.Job.ID)} {
		v.Job.Links[name] = path
	}
	if f.Outline != nil {
		text, err := json.Marshal(f.Outline)
		if err == nil {
			err = json.Unmarshal(text, &v.Outline)
		}
		if err != nil {
			return v, job.Errorf(job.Internal, "flow", f.Job.ID, "its outline: %w", err)
		}
	}
	for i := range f.Atoms {
		v.Atoms[i] = viewAtom(&f.Atoms[i], values)
	}
	for i := range f.Signals {
		one := &f.Signals[i]
		v.Signals = append(v.Signals, api.FlowSent{Name: one.Name, Value: *seen(one.Value, one.Large), Actor: one.Actor,
			At: one.At})
	}
	if values {
		v.Values = map[string]api.Seen{}
		for name, value := range f.Spec.Inject {
			v.Values[name] = *seen(&value, nil)
		}
	}
	return v, nil
}

func viewAtom(rec *durable.Atom, values bool) api.FlowAtom {
	a := api.FlowAtom{
		Name: rec.Name, Kind: string(rec.Kind), Version: rec.Version, State: rec.State,
		Intention: string(rec.Intention), Attempts: rec.Attempts, Tries: rec.Tries,
		Progress: rec.Progress, Details: part(rec, "details", rec.Details), Began: rec.Began, Ended: rec.Ended,
		ExecuteBegan: rec.ExecuteBegan, ExecuteEnded: rec.ExecuteEnded, Waits: rec.Waits, Awaits: rec.Awaits,
		Due:     rec.Due,
		Failure: viewFailure(rec.Failure), RevertFailure: viewFailure(rec.RevertFailure), History: len(rec.History),
		Removed: rec.Removed,
	}
	if values {
		a.Result = part(rec, "result", rec.Result)
	}
	return a
}

// part shows a value of an atom, which may be a large one that was put away.
func part(rec *durable.Atom, name string, v *flow.Value) *api.Seen {
	if large, ok := rec.Large[name]; ok {
		return seen(nil, &large)
	}
	if v == nil {
		return nil
	}
	return seen(v, nil)
}

func viewFailure(f *flow.Failure) *api.FlowFailure {
	if f == nil {
		return nil
	}
	v := &api.FlowFailure{Type: f.Type, Message: f.Message, Trace: f.Trace[:min(len(f.Trace), mostTrace)]}
	for _, c := range f.Causes {
		v.Causes = append(v.Causes, viewFailure(c))
	}
	return v
}

// seen gives a value as far as it is shown: whole if it is small, and of one that was put away only how large it is.
func seen(v *flow.Value, large *durable.Blob) *api.Seen {
	if large != nil {
		return &api.Seen{Bytes: int(large.Size)}
	}
	text, err := json.Marshal(v)
	if err != nil { // nothing that was stored
		return &api.Seen{Begin: err.Error()}
	}
	if len(text) <= mostShown {
		return &api.Seen{Value: text, Bytes: len(text)}
	}
	begin := []rune(string(bytes.ToValidUTF8(text[:min(len(text), 4*mostBegin)], nil)))
	return &api.Seen{Bytes: len(text), Begin: string(begin[:min(len(begin), mostBegin)])}
}
