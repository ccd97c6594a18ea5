package web

import (
	"net/http"
	"time"

	"github.com/stagepost/stagepost/api"
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
		var page api.Page
		if err := h.Get(r, "/api/v1/jobs?limit=20&"+g.query, &page); err != nil {
			return nil, err
		}
		one := viewMine(h.Pages, time.Now(), &page)
		one.Title, one.Lead = g.title, g.lead
		if page.Next != "" {
			one.More = "/jobs?" + g.query
		}
		v.Empty = v.Empty && len(one.Rows) == 0
		v.Groups = append(v.Groups, one)
	}
	return &Frame{Title: "My work", Body: v, Refresh: overviewRefresh}, nil
}

// viewMine makes the rows of a group. The jobs of a batch are shown on the page of the batch.
func viewMine(kinds Kinds, now time.Time, page *api.Page) (g mineGroup) {
	for i := range page.Jobs {
		if j := &page.Jobs[i]; j.Parent == "" {
			row := mineRow{Row: RowOf(kinds, now, j)}
			row.Page = row.Path
			g.Rows = append(g.Rows, row)
		}
	}
	return g
}
