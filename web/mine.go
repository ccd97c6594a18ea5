package web

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web/plain"
)

// mineView is what a user sees of its own jobs, in the order of what it can do about them.
type mineView struct {
	Groups []mineGroup
	Empty  bool
}

type mineGroup struct {
	Title, Lead string
	Rows        []Row
	More        []server.Link // the whole lists; none: these are all
}

// mineList is a query whose jobs a group shows.
type mineList struct {
	all   string // text of the link to the whole list
	query string
	shows func(*job.Job) bool // nil: all
}

func (h *handlers) mine(r *http.Request) (*Frame, error) {
	groups := []struct {
		title, lead string
		lists       []mineList
	}{
		{"Needs your attention", "These wait for you, or did not end well. Each page states why, and what you can do.",
			append(h.waitForOwner(), mineList{"All that failed", failedJobs + h.whole(), nil})},
		{"In progress", "You need not do anything for these now.", []mineList{{"All in progress",
			"ended=false" + h.whole(), func(j *job.Job) bool { return !h.waitsForOwner(j) }}}},
		{"Ended", "", []mineList{{"All that ended", "outcome=ok&outcome=cancelled" + h.whole(), nil}}},
	}
	v := mineView{Empty: true}
	for _, g := range groups {
		one := mineGroup{Title: g.title, Lead: g.lead}
		for _, list := range g.lists {
			if err := h.addMine(r, &one, &list); err != nil {
				return nil, err
			}
		}
		v.Empty = v.Empty && len(one.Rows)+len(one.More) == 0
		v.Groups = append(v.Groups, one)
	}
	return &Frame{Title: "My work", Body: v, Refresh: overviewRefresh}, nil
}

// addMine adds the first jobs of a list to a group. The jobs of a batch are shown on the page of the batch.
func (h *handlers) addMine(r *http.Request, to *mineGroup, list *mineList) error {
	more := ""
	for _, group := range groupsFor(r) {
		var page api.Page
		query := list.query + ownedBy(r) + group
		if err := h.Get(r, "/api/v1/jobs?brief=true&limit=20&"+query, &page); err != nil {
			return err
		}
		h.plainly(r, &page)
		page.Jobs = slices.DeleteFunc(page.Jobs, func(j job.Job) bool {
			return j.Parent != "" || list.shows != nil && !list.shows(&j) ||
				slices.ContainsFunc(to.Rows, func(have Row) bool { return have.ID == j.ID })
		})
		to.Rows = append(to.Rows, rowsOf(h.Pages, time.Now(), &page)...)
		if page.Next != "" && more == "" {
			more = "/jobs?" + query
		}
	}
	if more != "" {
		to.More = append(to.More, server.Link{Title: list.all, Path: more})
	}
	return nil
}

// plainly gives the jobs of a page for a depositor their messages in plain words.
func (h *handlers) plainly(r *http.Request, page *api.Page) {
	for i := range page.Jobs {
		if j := &page.Jobs[i]; server.IsUser(r.Context()) {
			j.Message = plain.Words(h.PlainOf).Message(j)
		}
	}
}

// groupsFor returns a part of a query for each group to which the sender is limited: a list is of one group then.
// Without a limit it is one empty part.
func groupsFor(r *http.Request) (all []string) {
	for _, group := range server.GroupsOf(r.Context()) {
		all = append(all, "&group="+url.QueryEscape(group))
	}
	if len(all) == 0 {
		return []string{""}
	}
	return all
}

// ownedBy is the part of a query for the jobs of a sender who may see those of others, too.
func ownedBy(r *http.Request) string {
	if owner := server.OwnerOf(r.Context()); owner != "" && !server.IsUser(r.Context()) {
		return "&owner=" + url.QueryEscape(owner)
	}
	return ""
}

// whole is the part of a query for the jobs that are no parts of others. The parts are newer than the whole: without
// this, the first page of a list may have parts alone. It is empty if the server has no kinds of parts.
func (p *Pages) whole() (query string) {
	kinds := p.KindsOf()
	whole := slices.DeleteFunc(slices.Clone(kinds), func(k job.Kind) bool { return p.NameOf(k).Part })
	if len(whole) == len(kinds) {
		return ""
	}
	for _, k := range whole {
		query += "&kind=" + url.QueryEscape(string(k))
	}
	return query
}

// waitForOwner are the lists of the jobs that wait for their owner: by their states, and by the causes that
// applications name.
func (h *handlers) waitForOwner() (all []mineList) {
	q := url.Values{"ended": {"false"}}
	for _, k := range h.KindsOf() {
		for _, stage := range h.Stages(k) {
			if !h.NameOf(k).Part && asksOwner(&stage) {
				q.Add("kind", string(k))
				q.Add("state", string(stage.State))
			}
		}
	}
	if q.Has("kind") {
		all = append(all, mineList{"All that wait for you", q.Encode(), h.waitsForOwner})
	}
	if causes := h.OwnerCauses(); len(causes) > 0 {
		query := "ended=false" + h.whole() + "&" + url.Values{"cause": causes}.Encode()
		all = append(all, mineList{"All that wait for you", query, h.waitsForOwner})
	}
	return all
}

// waitsForOwner reports whether the next act is the owner's.
func (h *handlers) waitsForOwner(j *job.Job) bool {
	stage := h.Stage(j.Kind, j.State)
	return !j.Ended && !j.Claimed() && (asksOwner(&stage) || slices.Contains(h.OwnerCauses(), j.Cause))
}

// asksOwner reports whether a state waits for the owner: no worker moves it, and the owner may do more than cancel.
func asksOwner(stage *lifecycle.Stage) bool {
	return stage.Kind == lifecycle.Wait && !workedElsewhere(stage) &&
		slices.ContainsFunc(stage.Transitions, func(t lifecycle.Transition) bool {
			return t.By&lifecycle.Owner != 0 && !t.Stays() && t.Set != lifecycle.Cancelled
		})
}
