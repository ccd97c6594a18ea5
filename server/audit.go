package server

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Bounds of a search in the audit list.
const (
	auditPages = 100 // that one request reads to find entries that fit
	auditLast  = 50  // by default
)

// auditQuery selects entries.
type auditQuery struct {
	after int64
	limit int
	actor string
	from  senders
	job   job.ID
	event lifecycle.Event
}

func (q *auditQuery) fits(a *job.Audit) bool {
	return (q.actor == "" || q.actor == a.Actor) && (q.job == "" || q.job == a.Job) &&
		(q.event == "" || q.event == a.Event) && q.from.have(a.Address)
}

func (s *Server) audit(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := auditQuery{actor: p.Text("actor"), job: job.ID(p.Text("job")), event: lifecycle.Event(p.Text("event")),
		from: p.senders("address")}
	q.after, q.limit = p.PageFrom()
	forward := r.URL.Query().Has("after")
	if err := p.Err(); err != nil {
		return err
	}
	answer, err := api.Audits{}, error(nil)
	if forward {
		q.limit = cmp.Or(q.limit, MostPage)
		answer, err = auditAfter(r, s.Store, &q)
	} else {
		q.limit = cmp.Or(q.limit, auditLast)
		answer, err = auditNewest(r, s.Store, &q)
	}
	if err != nil {
		return err
	}
	answer.Entries = listed(answer.Entries)
	return Reply(w, answer)
}

// auditAfter returns a page of entries that fit, going forward.
func auditAfter(r *http.Request, list job.AuditLog, q *auditQuery) (api.Audits, error) {
	answer, at := api.Audits{}, q.after
	for range auditPages {
		page, err := list.Audit(r.Context(), at, MostPage)
		if err != nil {
			return answer, err
		}
		for i := range page {
			at = page[i].Seq
			if q.fits(&page[i]) {
				answer.Entries = append(answer.Entries, page[i])
			}
			if len(answer.Entries) == q.limit {
				answer.Next = strconv.FormatInt(at, 10)
				return answer, nil
			}
		}
		if len(page) < MostPage {
			return answer, nil
		}
	}
	answer.Next, answer.Cut = strconv.FormatInt(at, 10), true
	return answer, nil
}

// auditNewest returns the newest entries that fit, oldest first.
func auditNewest(r *http.Request, list job.AuditLog, q *auditQuery) (api.Audits, error) {
	var found []job.Audit // newest first
	before := int64(0)
	for range auditPages {
		page, err := list.Audit(r.Context(), before, -MostPage)
		if err != nil {
			return api.Audits{}, err
		}
		for i := len(page) - 1; i >= 0 && len(found) < q.limit; i-- {
			if q.fits(&page[i]) {
				found = append(found, page[i])
			}
		}
		if len(found) == q.limit || len(page) < MostPage || page[0].Seq <= 1 {
			slices.Reverse(found)
			return api.Audits{Entries: found}, nil
		}
		before = page[0].Seq
	}
	slices.Reverse(found)
	return api.Audits{Entries: found, Cut: true}, nil
}
