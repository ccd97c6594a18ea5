package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
)

// mineView is what a user sees of its own jobs, in the order of what it can do about them.
type mineView struct {
	Groups []mineGroup
	Empty  bool
}

type mineGroup struct {
	Title, Lead string
	Rows        []mineRow
	More        string // address of the whole list; empty: these are all
}

type mineRow struct {
	Row
	Page string // for the depositor; else that of the job
}

func (h *handlers) mine(r *http.Request) (*Frame, error) {
	groups := []struct{ title, lead, query string }{
		{"Needs your attention", "These did not end well. Each page states why, and what you can do.",
			"outcome=failed&outcome=timed-out"},
		{"In progress", "You need not do anything: these continue by themselves.", "ended=false"},
		{"Done", "", "outcome=ok"},
	}
	v := mineView{Empty: true}
	for _, g := range groups {
		one := mineGroup{Title: g.title, Lead: g.lead}
		for _, group := range groupsFor(r) {
			var page api.Page
			query := g.query + group
			if err := h.Get(r, "/api/v1/jobs?limit=20&"+query, &page); err != nil {
				return nil, err
			}
			one.Rows = append(one.Rows, viewMine(h.Pages, time.Now(), &page)...)
			if page.Next != "" && one.More == "" {
				one.More = "/jobs?" + query
			}
		}
		v.Empty = v.Empty && len(one.Rows) == 0
		v.Groups = append(v.Groups, one)
	}
	return &Frame{Title: "My work", Body: v, Refresh: overviewRefresh}, nil
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

// viewMine makes the rows of a group. The jobs of a batch are shown on the page of the batch.
func viewMine(kinds Kinds, now time.Time, page *api.Page) (rows []mineRow) {
	for i := range page.Jobs {
		if j := &page.Jobs[i]; j.Parent == "" {
			row := mineRow{Row: rowOf(kinds, now, j)}
			row.Page = row.Path
			rows = append(rows, row)
		}
	}
	return rows
}
