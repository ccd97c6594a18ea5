package server_test

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestSlipsOfThePen: names that nothing has are refused with what may have been meant; those of the control are not.
func TestSlipsOfThePen(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	j := w.Post(engine.Order{Group: "maps"})
	for name, c := range map[string]struct {
		q    job.Query
		want string // in the refusal; empty if there is none
	}{
		"kind":    {job.Query{Kinds: []job.Kind{"test.letter"}}, ""},
		"state":   {job.Query{States: []lc.State{"Held"}}, ""},
		"outcome": {job.Query{Outcomes: []lc.Outcome{lc.TimedOut}}, ""},
		"unknown kind": {job.Query{Kinds: []job.Kind{"test.letter", "letter"}},
			`there is no kind "letter" (known: test.letter)`},
		"unknown state": {job.Query{States: []lc.State{"Singed"}}, `there is no state "Singed" (known: `},
		"small letters": {job.Query{States: []lc.State{"held"}}, `there is no state "held" (did you mean Held?)`},
		"unknown outcome": {job.Query{Outcomes: []lc.Outcome{"fine"}},
			`there is no outcome "fine" (known: cancelled, failed, ok, timed-out)`},
	} {
		_, err := w.Client.Jobs(t.Context(), c.q)
		refused := job.KindOf(err) == job.Invalid && strings.Contains(err.Error(), c.want)
		if c.want == "" && err != nil || c.want != "" && !refused {
			t.Errorf("list, %s: got %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		scope job.Scope
		want  job.ErrorKind
	}{
		"kind": {job.Scope{Kind: "test.letter"}, ""}, "state": {job.Scope{State: "Posted"}, ""},
		"job":             {job.Scope{Job: j.ID}, ""},
		"a group to come": {job.Scope{Group: "films"}, ""}, "a tag to come": {job.Scope{Tag: "queue=films"}, ""},
		"unknown kind":  {job.Scope{Kind: "letter"}, job.Invalid},
		"unknown state": {job.Scope{State: "posted"}, job.Invalid},
		"unknown job":   {job.Scope{Job: "let_none"}, job.NotFound},
	} {
		holds, err := w.Client.Hold(t.Context(), client.Hold{Scope: c.scope, Who: "ann", Why: "flood"})
		if job.KindOf(err) != c.want && (err != nil || c.want != "") {
			t.Errorf("hold, %s: got %v, %v", name, holds, err)
		}
	}
	if _, err := w.Client.Queue(t.Context(),
		client.QueueQuery{Kinds: []job.Kind{"letter"}}); job.KindOf(err) != job.Invalid {
		t.Errorf("queue: got %v", err)
	}
}
