package postgres

import (
	"bytes"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// made has what never changes about a job, now what changes.
var made = table[record]{"job_made", "made_row", false, []column[record]{
	{name: "n", int: func(r *record) int64 { return r.n }},
	{name: "id", text: func(r *record) string { return string(r.job.ID) }},
	{name: "kind", text: func(r *record) string { return string(r.job.Kind) }},
	{name: "number", int: func(r *record) int64 { return r.job.Number }},
	{name: "parent", text: func(r *record) string { return string(r.job.Parent) }},
	{name: "owner", text: func(r *record) string { return r.job.Owner }},
	{name: "definition", text: func(r *record) string { return r.job.Definition }},
	{name: "created", int: func(r *record) int64 { return micro(r.job.Created) }},
	{name: "key", text: func(r *record) string { return r.job.Key }},
	{name: "spec", bytes: func(r *record) []byte { return r.job.Spec }},
	{name: "crowd", text: func(r *record) string { return string(r.crowd) }},
	{name: "requires", plain: func(r *record) string { return labelsText(r.job.Requires) }},
	{name: "words", plain: func(r *record) string { return r.job.Words }},
}}

var now = table[record]{"job_now", "now_row", true, []column[record]{
	{name: "n", int: func(r *record) int64 { return r.n }},
	{name: "kind", text: func(r *record) string { return string(r.job.Kind) }},
	{name: "state", text: func(r *record) string { return string(r.job.State) }},
	{name: "last_ok", text: func(r *record) string { return string(r.job.LastOK) }},
	{name: "origin", text: func(r *record) string { return string(r.job.Origin) }},
	{name: "outcome", text: func(r *record) string { return string(r.job.Outcome) }},
	{name: "ended", int: ended},
	{name: "priority", int: func(r *record) int64 { return int64(r.job.Priority) }},
	{name: "grp", text: func(r *record) string { return r.job.Group }},
	{name: "tags", plain: func(r *record) string { return tagsText(r.job.Tags) }},
	{name: "bytes", int: func(r *record) int64 { return r.job.Bytes }},
	{name: "version", int: func(r *record) int64 { return r.job.Version }},
	{name: "epoch", int: func(r *record) int64 { return r.job.Epoch }},
	{name: "worker", text: func(r *record) string { return r.job.Worker }},
	{name: "until", int: func(r *record) int64 { return micro(r.job.Until) }},
	{name: "starts", int: func(r *record) int64 { return int64(r.job.Starts) }},
	{name: "attempts", int: func(r *record) int64 { return int64(r.job.Attempts) }},
	{name: "retries", int: func(r *record) int64 { return int64(r.job.Retries) }},
	{name: "due", int: func(r *record) int64 { return micro(r.job.Due) }},
	{name: "deadline", int: func(r *record) int64 { return micro(r.job.Deadline) }},
	{name: "expires", int: func(r *record) int64 { return micro(r.job.Expires) }},
	{name: "entered", int: func(r *record) int64 { return micro(r.job.Entered) }},
	{name: "changed", int: func(r *record) int64 { return micro(r.job.Changed) }},
	{name: "message", text: func(r *record) string { return r.job.Message }},
	{name: "cause", text: func(r *record) string { return r.job.Cause }},
	{name: "children", plain: func(r *record) string { return childrenText(&r.job.Children) }},
	{name: "seq", int: func(r *record) int64 { return r.job.Seq }},
	{name: "head", bytes: func(r *record) []byte { return r.job.Head[:] }},
	{name: "data", bytes: func(r *record) []byte { return r.job.Data }},
	{name: "lane", lane: func(r *record) laneID { return r.lane }},
	{name: "waits", int: func(r *record) int64 { return r.waits }},
}}

// transition has what a transition changes, for jobs of which the rest stays as it is. So contents that are long, which
// PostgreSQL keeps outside of the row, are not written again.
var transition = now.only("transition_row", "n", "state", "last_ok", "origin", "outcome", "ended", "version", "epoch",
	"worker", "until", "starts", "attempts", "due", "entered", "changed", "seq", "head", "lane", "waits")

// stays reports whether a change leaves what transition does not have as it is.
func (r *record) stays(after *record) bool {
	a, b := &r.job, &after.job
	return a.Priority == b.Priority && a.Group == b.Group && slices.Equal(a.Tags, b.Tags) && a.Bytes == b.Bytes &&
		a.Retries == b.Retries && a.Deadline.Equal(b.Deadline) && a.Expires.Equal(b.Expires) &&
		a.Message == b.Message && a.Cause == b.Cause && a.Children == b.Children &&
		(a.Data == nil) == (b.Data == nil) && bytes.Equal(a.Data, b.Data)
}

func ended(r *record) int64 {
	switch {
	case r.job.Gone:
		return 2
	case r.job.Ended:
		return 1
	}
	return 0
}

// entry is an entry of a history.
type entry struct {
	n      int64 // of the job
	event  *job.Event
	number int64 // among the entries of all histories; zero: it is not written yet
}

var events = table[entry]{"event", "event_row", false, []column[entry]{
	{name: "job", int: func(e *entry) int64 { return e.n }},
	{name: "seq", int: func(e *entry) int64 { return e.event.Seq }},
	{name: "event", text: func(e *entry) string { return string(e.event.Event) }},
	{name: "from_state", text: func(e *entry) string { return string(e.event.From) }},
	{name: "to_state", text: func(e *entry) string { return string(e.event.To) }},
	{name: "outcome", text: func(e *entry) string { return string(e.event.Outcome) }},
	{name: "actor", int: func(e *entry) int64 { return int64(e.event.By) }},
	{name: "who", text: func(e *entry) string { return e.event.Actor }},
	{name: "cause", text: func(e *entry) string { return e.event.Cause }},
	{name: "note", text: func(e *entry) string { return e.event.Note }},
	{name: "epoch", int: func(e *entry) int64 { return e.event.Epoch }},
	{name: "at", int: func(e *entry) int64 { return micro(e.event.At) }},
	{name: "hash", bytes: func(e *entry) []byte { return e.event.Hash[:] }},
	{name: "address", text: func(e *entry) string { return e.event.Address }},
	{name: "began", int: func(e *entry) int64 { return micro(e.event.Began) }},
}}

// taskOf is a task of a job.
type taskOf struct {
	n    int64
	task job.Task
}

var tasks = table[taskOf]{name: "task", columns: []column[taskOf]{
	{name: "job", int: func(t *taskOf) int64 { return t.n }},
	{name: "name", text: func(t *taskOf) string { return t.task.Name }},
	{name: "kind", text: func(t *taskOf) string { return string(t.task.Kind) }},
	{name: "state", text: func(t *taskOf) string { return string(t.task.State) }},
	{name: "epoch", int: func(t *taskOf) int64 { return t.task.Epoch }},
	{name: "attempts", int: func(t *taskOf) int64 { return int64(t.task.Attempts) }},
	{name: "done", int: func(t *taskOf) int64 { return t.task.Done }},
	{name: "total", int: func(t *taskOf) int64 { return t.task.Total }},
	{name: "message", text: func(t *taskOf) string { return t.task.Message }},
	{name: "data", bytes: func(t *taskOf) []byte { return t.task.Data }},
	{name: "changed", int: func(t *taskOf) int64 { return micro(t.task.Changed) }},
}}

var messages = table[job.Message]{name: "message", columns: []column[job.Message]{
	{name: "m", int: func(m *job.Message) int64 { return m.Number }},
	{name: "key", text: func(m *job.Message) string { return m.Key }},
	{name: "job", text: func(m *job.Message) string { return string(m.Job) }},
	{name: "topic", text: func(m *job.Message) string { return m.Topic }},
	{name: "body", bytes: func(m *job.Message) []byte { return m.Body }},
	{name: "created", int: func(m *job.Message) int64 { return micro(m.Created) }},
	{name: "due", int: func(m *job.Message) int64 { return micro(m.Due) }},
	{name: "attempts", int: func(m *job.Message) int64 { return int64(m.Attempts) }},
	{name: "error", text: func(m *job.Message) string { return m.Error }},
	{name: "settled", text: func(m *job.Message) string { return string(m.Settled) }},
	{name: "tried", text: func(m *job.Message) string { return triedText(m.Tried) }},
}}

var audits = table[job.Audit]{name: "audit", columns: []column[job.Audit]{
	{name: "a", int: func(a *job.Audit) int64 { return a.Seq }},
	{name: "at", int: func(a *job.Audit) int64 { return micro(a.At) }},
	{name: "actor", int: func(a *job.Audit) int64 { return int64(a.By) }},
	{name: "who", text: func(a *job.Audit) string { return a.Actor }},
	{name: "event", text: func(a *job.Audit) string { return string(a.Event) }},
	{name: "job", text: func(a *job.Audit) string { return string(a.Job) }},
	{name: "kind", text: func(a *job.Audit) string { return string(a.Kind) }},
	{name: "from_state", text: func(a *job.Audit) string { return string(a.From) }},
	{name: "to_state", text: func(a *job.Audit) string { return string(a.To) }},
	{name: "object", text: func(a *job.Audit) string { return a.Object }},
	{name: "note", text: func(a *job.Audit) string { return a.Note }},
	{name: "seen", int: func(a *job.Audit) int64 { return a.Seen }},
	{name: "hash", bytes: func(a *job.Audit) []byte { return a.Hash[:] }},
	{name: "address", text: func(a *job.Audit) string { return a.Address }},
}}

var holds = table[job.Hold]{name: "hold", columns: []column[job.Hold]{
	{name: "kind", text: func(h *job.Hold) string { return string(h.Kind) }},
	{name: "state", text: func(h *job.Hold) string { return string(h.State) }},
	{name: "grp", text: func(h *job.Hold) string { return h.Group }},
	{name: "owner", text: func(h *job.Hold) string { return h.Owner }},
	{name: "tag", text: func(h *job.Hold) string { return h.Tag }},
	{name: "job", text: func(h *job.Hold) string { return string(h.Job) }},
	{name: "who", text: func(h *job.Hold) string { return h.Who }},
	{name: "why", text: func(h *job.Hold) string { return h.Why }},
	{name: "since", int: func(h *job.Hold) int64 { return micro(h.Since) }},
	{name: "until", int: func(h *job.Hold) int64 { return micro(h.Until) }},
}}
