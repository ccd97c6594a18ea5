package computehttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// Sizes of a page of tasks. Where each task costs a check into its results, pages are shorter than asked for, as the
// standard allows.
const (
	tesPage      = 256
	tesPageMost  = 2047
	tesPageBasic = 500
	tesPageFull  = 64
	tesStepFull  = 4       // tasks that are shown whole before their weight is inspected
	tesWeight    = 8 << 20 // bytes of contents and of what executors wrote, beyond which a page ends early
)

// tesFilter is what a list of tasks is asked for beside what the store can find.
type tesFilter struct {
	prefix     string
	state      tes.State
	keys, vals []string
}

// tesTasks gives a page of tasks, the newest first. It is found by reading through, so it may be shorter than asked and
// still have a next one.
func (s *Handlers) tesTasks(w http.ResponseWriter, r *http.Request) error {
	q, f, view, err := tesQuery(r)
	if err != nil {
		return err
	}
	app, _, err := s.tes()
	if err != nil {
		return err
	}
	q.Owner = server.UserOf(r.Context())
	page := tes.Page{Tasks: []tes.Task{}}
	if f.state != "" && len(q.States) == 0 { // no job is ever in it
		return server.Reply(w, page)
	}
	want, step, weight := q.Limit, 1000, 0
	if view == tes.Full {
		step = tesStepFull
	}
	for range mostLooks {
		q.Limit = min(want-len(page.Tasks), step)
		found, err := s.Store.List(r.Context(), q)
		if err != nil {
			return err
		}
		for i := range found.Jobs {
			fits, err := s.tesFits(r, &found.Jobs[i], f)
			if err != nil {
				return err
			}
			if !fits {
				continue
			}
			t, err := s.tesShow(r, app, &found.Jobs[i], view)
			if err != nil {
				return err
			}
			page.Tasks, weight = append(page.Tasks, t), weight+weigh(&t)
		}
		if q.After = found.Next; q.After == "" || len(page.Tasks) >= want || weight > tesWeight {
			break
		}
	}
	page.Next = q.After
	return server.Reply(w, page)
}

// weigh gives the bytes of a task that have no small bound of their own.
func weigh(t *tes.Task) (n int) {
	for i := range t.Inputs {
		n += len(t.Inputs[i].Content)
	}
	for _, l := range t.Logs {
		for _, e := range l.Logs {
			n += len(e.Stdout) + len(e.Stderr)
		}
	}
	return n
}

// tesQuery reads the query of a list of tasks.
func tesQuery(r *http.Request) (q job.Query, f *tesFilter, view tes.View, err error) {
	p := server.Params(r)
	f = &tesFilter{prefix: p.Text("name_prefix")}
	if text := p.Text("state"); text != "" {
		if f.state, err = tes.ParseState(text); err != nil {
			p.Wrong("%v", err)
		}
		q.States = tes.Where(f.state)
	}
	f.keys, f.vals = p.Each("tag_key"), p.Each("tag_value") // as they are: a tag may have a comma
	if len(f.vals) > len(f.keys) || len(f.keys) > 100 {
		p.Wrong("each tag_value needs a tag_key before it, and there are at most 100")
	}
	if view, err = tes.ParseView(p.Text("view")); err != nil {
		p.Wrong("%v", err)
	}
	if q.Limit = int(p.Number("page_size", 0, tesPageMost)); q.Limit == 0 {
		q.Limit = tesPage
	}
	switch view {
	case tes.Full:
		q.Limit = min(q.Limit, tesPageFull)
	case tes.Basic:
		q.Limit = min(q.Limit, tesPageBasic)
	}
	q.Kinds, q.After = []job.Kind{compute.JobKind}, p.Text("page_token")
	return q, f, view, p.Err()
}

// tesFits reports whether a job is a task that is wanted.
func (s *Handlers) tesFits(r *http.Request, j *job.Job, f *tesFilter) (bool, error) {
	t, ok, err := tes.TaskOf(j)
	if err != nil || !ok || !strings.HasPrefix(t.Name, f.prefix) {
		return false, err
	}
	for i, key := range f.keys {
		value, there := t.Tags[key]
		if !there || i < len(f.vals) && f.vals[i] != "" && f.vals[i] != value {
			return false, nil
		}
	}
	if f.state == "" {
		return true, nil
	}
	stands, err := s.tesStands(r, j)
	return slices.Contains(tes.Where(f.state), j.State) && tes.StateOf(stands.State, stands.Cause) == f.state, err
}
