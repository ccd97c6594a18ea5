package job_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
)

// entries makes an audit list whose every field has a value.
func entries() []job.Audit {
	at := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	list := []job.Audit{
		{At: at, By: lc.Operator, Actor: "ann",
			Event: "cancel", Job: "tst_1", Kind: "test.seal", From: "Waiting", To: "Done", Object: "a thing",
			Note: "why", Seen: 3},
		{At: at.Add(time.Second), By: lc.Operator, Actor: "ben", Event: "hold", Object: "queue=ingest"},
		{At: at.Add(time.Minute), By: lc.Owner, Actor: "cid", Event: "retry", Job: "tst_2"},
	}
	prev := job.Hash{}
	for i := range list {
		list[i].Seq = int64(i + 1)
		list[i].Seal(prev)
		prev = list[i].Hash
	}
	return list
}

// TestAuditSealIsForEver pins the canonical form: lists that were written under it must verify under every later
// version.
func TestAuditSealIsForEver(t *testing.T) {
	list := entries()
	const want = "1b1a20b4659a6227cea803b052348489e8a559ad5cc046ce384ff2363b30907d"
	if got := list[2].Hash.String(); got != want {
		t.Errorf("the canonical form of audit entries changed: got %s, want %s", got, want)
	}
	if err := job.VerifyAudit(nil, list); err != nil {
		t.Errorf("control: %v", err)
	}
	if err := job.VerifyAudit(&list[0], list[1:]); err != nil {
		t.Errorf("control, from the second: %v", err)
	}
}

// TestVerifyAuditFindsEveryChange changes each field of an entry, and the list itself.
func TestVerifyAuditFindsEveryChange(t *testing.T) {
	field := func(change func(a *job.Audit)) func([]job.Audit) []job.Audit {
		return func(list []job.Audit) []job.Audit { change(&list[0]); return list }
	}
	for name, change := range map[string]func([]job.Audit) []job.Audit{
		"seq":     field(func(a *job.Audit) { a.Seq = 9 }),
		"at":      field(func(a *job.Audit) { a.At = a.At.Add(time.Microsecond) }),
		"by":      field(func(a *job.Audit) { a.By = lc.Owner }),
		"actor":   field(func(a *job.Audit) { a.Actor = "mallory" }),
		"event":   field(func(a *job.Audit) { a.Event = "retry" }),
		"job":     field(func(a *job.Audit) { a.Job = "tst_2" }),
		"kind":    field(func(a *job.Audit) { a.Kind = "" }),
		"from":    field(func(a *job.Audit) { a.From = "Done" }),
		"to":      field(func(a *job.Audit) { a.To = "" }),
		"object":  field(func(a *job.Audit) { a.Object = "another" }),
		"note":    field(func(a *job.Audit) { a.Note = "" }),
		"seen":    field(func(a *job.Audit) { a.Seen++ }),
		"address": field(func(a *job.Audit) { a.Address = "192.0.2.7" }),
		"prev":    field(func(a *job.Audit) { a.Prev[3]++ }),
		"hash":    field(func(a *job.Audit) { a.Hash[3]++ }),
		"shifted": field(func(a *job.Audit) {
			a.Actor, a.Event = "annc", "ancel"
		}),
		"resealed": field(func(a *job.Audit) { a.Note = "forged"; a.Seal(job.Hash{}) }),
		"first":    func(list []job.Audit) []job.Audit { return list[1:] },
		"middle":   func(list []job.Audit) []job.Audit { return append(list[:1], list[2]) },
		"swapped":  func(list []job.Audit) []job.Audit { list[0], list[1] = list[1], list[0]; return list },
	} {
		t.Run(name, func(t *testing.T) {
			if job.VerifyAudit(nil, change(entries())) == nil {
				t.Error("the change was not found")
			}
		})
	}
}

// TestPerson: what is entered in the audit list.
func TestPerson(t *testing.T) {
	for _, c := range []struct {
		change job.Change
		want   bool
	}{
		{job.Change{By: lc.Operator, Event: "hold"}, true},
		{job.Change{By: lc.Owner, Event: "cancel"}, true},
		{job.Change{By: lc.Operator, Purge: true}, true},
		{job.Change{By: lc.Timer, Purge: true}, false},
		{job.Change{By: lc.Worker, Event: "begin"}, false},
		{job.Change{By: lc.Engine, Event: "report"}, false},
		{job.Change{By: lc.Operator}, false},
	} {
		if got := c.change.Person(); got != c.want {
			t.Errorf("%v %q purge %t: got %t", c.change.By, c.change.Event, c.change.Purge, got)
		}
	}
	before := job.Job{ID: "tst_1", Kind: "k", Priority: 50}
	before.State = "Gone"
	c := job.Change{By: lc.Operator, Actor: "ann", Purge: true, Seen: 4}
	want := job.Audit{By: lc.Operator, Actor: "ann", Event: job.Purge, Job: "tst_1", Kind: "k", From: "Gone", Seen: 4}
	if diff := cmp.Diff(want, job.Audited(&c, &before)); diff != "" {
		t.Errorf("the entry of a purge (-want +got):\n%s", diff)
	}
}
