package servertest

import (
	"context"
	"io"
	"net/http"

	"github.com/stagepost/stagepost/server"
)

// Uploads is an application with one route, POST /upload, which reads a large body and answers after wait.
func Uploads(wait func(context.Context) error) PartOf {
	return func(w *Harness) server.Part { return UploadsOf(w.Server, wait) }
}

// UploadsOf is that application on any server.
func UploadsOf(s *server.Server, wait func(context.Context) error) server.Part {
	return server.Part{Routes: []server.Route{{
		Method: http.MethodPost, Pattern: "/upload", Who: server.Own, Doc: "Reads a body.", Upload: true,
		NoReason: server.NewWork,
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			end, err := s.Upload(w, r)
			if err != nil {
				return err
			}
			defer end()
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return server.BodyError(err)
			}
			if err := wait(r.Context()); err != nil {
				return err
			}
			w.WriteHeader(http.StatusNoContent)
			return nil
		},
	}}}
}

// Handler is an application with one route for any role: GET pattern, answered by h.
func Handler(pattern string, h http.Handler) PartOf {
	return func(*Harness) server.Part {
		return server.Part{Routes: []server.Route{{
			Method: http.MethodGet, Pattern: pattern, Who: server.Worker, Doc: "Is answered by a test.",
			Handle: func(w http.ResponseWriter, r *http.Request) error {
				h.ServeHTTP(w, r)
				return nil
			},
		}}}
	}
}
