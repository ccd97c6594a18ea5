package archivehttp

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/trigger"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// receive answers with the shape of api.ArchiveAccepted. Its sender is known by the signature, not by a token.
func (s *Handlers) receive(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.app()
	if err != nil {
		return err
	}
	j, err := app.Receive(r.Context(), r.PathValue("receiver"), r.Header, r.Body)
	if errors.Is(err, trigger.ErrSignature) {
		return problem.Refuse(http.StatusUnauthorized, job.Refused, "%w", trigger.ErrSignature)
	}
	var later *trigger.LaterError
	if errors.As(err, &later) {
		w.Header().Set("Retry-After", strconv.Itoa(int(later.After/time.Second)))
		if later.Many {
			return problem.Refuse(http.StatusTooManyRequests, job.Unavailable, "%w", err)
		}
	}
	if err != nil {
		return err
	}
	return server.ReplyAs(w, http.StatusAccepted, api.ArchiveAccepted{Job: j.ID})
}
