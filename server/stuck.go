package server

import (
	"net/http"
	"strconv"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// stuck answers with the shape of client.Stuck.
func (s *Server) stuck(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	q := engine.StuckQuery{Kind: job.Kind(p.text("kind")), Limit: int(p.number("limit", 1, 1000))}
	if text := p.text("factor"); text != "" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 0.01 && f <= 1e6) {
			p.wrong("factor must be a number from 0.01 to 1000000, not %.40q", text)
		}
		q.Factor = f
	}
	if err := p.done(); err != nil {
		return err
	}
	report, err := s.Engine.Stuck(r.Context(), q)
	if err != nil {
		return err
	}
	return reply(w, report)
}
