package server

import (
	"net/http"
	"strconv"

	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
)

// stuck answers with the stuck jobs.
func (s *Server) stuck(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := explain.StuckQuery{Kind: job.Kind(p.Text("kind")), Limit: int(p.Number("limit", 1, MostPage))}
	if text := p.Text("factor"); text != "" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 0.01 && f <= 1e6) {
			p.Wrong("factor must be a number from 0.01 to 1000000, not %.40q", text)
		}
		q.Factor = f
	}
	if err := p.Err(); err != nil {
		return err
	}
	report, err := s.explainer.Stuck(r.Context(), q)
	if err != nil {
		return err
	}
	return Reply(w, report)
}
