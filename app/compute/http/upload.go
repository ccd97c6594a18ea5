package computehttp

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// uploadsPath is where resumable uploads are made.
const uploadsPath = "/api/v1/compute/uploads"

func noUploads() error {
	return problem.Absent("uploads", "this server takes no resumable uploads", computeSettings)
}

// resumable passes a request to the store of uploads, which bounds body and time by itself.
func (s *Handlers) resumable(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if s.ComputeUploads == nil {
		return noUploads()
	}
	s.ComputeUploads.Handler(uploadsPath).ServeHTTP(w, r)
	return nil
}

// uploadKinds are the kinds of problems that the protocol's own statuses are; others are by their class.
var uploadKinds = map[int]job.ErrorKind{
	http.StatusForbidden: job.Refused, http.StatusNotFound: job.NotFound, http.StatusConflict: job.Conflict,
	http.StatusGone: job.Gone, http.StatusLocked: job.Refused,
	http.StatusInsufficientStorage: job.Unavailable, http.StatusServiceUnavailable: job.Unavailable,
}

// FailUpload makes what a store of uploads answers refusals with: problems, as all routes do. Statuses are the
// protocol's.
func FailUpload(log *slog.Logger) func(w http.ResponseWriter, r *http.Request, status int, err error) {
	return func(w http.ResponseWriter, r *http.Request, status int, err error) {
		kind, known := uploadKinds[status]
		switch {
		case known:
		case status >= 500:
			kind = job.Internal
		default:
			kind = job.Invalid
		}
		p := problem.Of(job.Errorf(kind, "uploads", "", "%w", err))
		p.Status = status
		if kind == job.Internal {
			log.Error("request", "method", r.Method, "path", r.URL.Path, "error", err)
		}
		writeProblem(w, p)
	}
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	text, err := json.Marshal(p)
	if err != nil { // plain fields
		text = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	fmt.Fprintf(w, "%s\n", text)
}
