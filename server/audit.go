package server

import (
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Bounds of a look into the audit list.
const (
	auditPage  = 1000
	auditPages = 100 // that one request reads to find entries that fit
	auditLast  = 50  // by default
)

// auditQuery says which entries are wanted.
type auditQuery struct {
	after, last int64
	actor       string
	job         job.ID
	event       lifecycle.Event
}

func (q *auditQuery) fits(a *job.Audit) bool {
	return (q.actor == "" || q.actor == a.Actor) && (q.job == "" || q.job == a.Job) && (q.event == "" || q.event == a.Event)
}

// audits answers with the shape of api.Audits, whose entries differ from job.Audit only in how their actor is read.
type audits struct {
	Entries []job.Audit `json:"entries"`
	Next    int64       `json:"next,omitempty"`
	Cut     bool        `json:"cut,omitempty"`
}

func (s *Server) audit(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := auditQuery{
		after: p.Number("after", 0, 1<<62), last: p.Number("last", 1, auditPage),
		actor: p.Text("actor"), job: job.ID(p.Text("job")), event: lifecycle.Event(p.Text("event")),
	}
	forward := r.URL.Query().Has("after")
	if forward && q.last > 0 {
		p.Wrong("either after or last")
	}
	if err := p.Err(); err != nil {
		return err
	}
	list, ok := s.Store.(job.Auditor)
	if !ok {
		return Absent("audit", "the store "+s.Store.Properties().Name+" keeps no audit list", "setting store")
	}
	if q.last == 0 {
		q.last = auditLast
	}
	answer, err := audits{}, error(nil)
	if forward {
		answer, err = auditAfter(r, list, &q)
	} else {
		answer, err = auditNewest(r, list, &q)
	}
	if err != nil {
		return err
	}
	if answer.Entries == nil {
		answer.Entries = []job.Audit{}
	}
	return Reply(w, answer)
}

// auditAfter gives a page of entries that fit, going forward.
func auditAfter(r *http.Request, list job.Auditor, q *auditQuery) (audits, error) {
	answer := audits{Next: q.after}
	for range auditPages {
		page, err := list.Audit(r.Context(), answer.Next, auditPage)
		if err != nil {
			return answer, err
		}
		for i := range page {
			answer.Next = page[i].Seq
			if q.fits(&page[i]) {
				answer.Entries = append(answer.Entries, page[i])
			}
			if len(answer.Entries) == auditPage {
				return answer, nil
			}
		}
		if len(page) < auditPage {
			answer.Next = 0
			return answer, nil
		}
	}
	answer.Cut = true
	return answer, nil
}

// auditNewest gives the newest entries that fit, oldest first.
func auditNewest(r *http.Request, list job.Auditor, q *auditQuery) (audits, error) {
	var found []job.Audit // newest first
	before := int64(0)
	for range auditPages {
		page, err := list.Audit(r.Context(), before, -auditPage)
		if err != nil {
			return audits{}, err
		}
		for i := len(page) - 1; i >= 0 && int64(len(found)) < q.last; i-- {
			if q.fits(&page[i]) {
				found = append(found, page[i])
			}
		}
		if int64(len(found)) == q.last || len(page) < auditPage || page[0].Seq <= 1 {
			slices.Reverse(found)
			return audits{Entries: found}, nil
		}
		before = page[0].Seq
	}
	slices.Reverse(found)
	return audits{Entries: found, Cut: true}, nil
}
