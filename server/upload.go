package server

import (
	"net/http"
	"time"

	"github.com/stagepost/stagepost/server/transfer"
)

// Upload prepares a request for a large body, which is read at its sender's speed, up to MaxUpload bytes and while
// the disk has space. The caller calls end once when the body is read.
func (s *Server) Upload(w http.ResponseWriter, r *http.Request) (end func(), err error) {
	body, end := s.uploads.Begin(r.Body, http.NewResponseController(w))
	if s.Storage != nil {
		if body, err = transfer.Admit(s.Storage.Admit, body, r.ContentLength); err != nil {
			end()
			return nil, err
		}
	}
	r.Body = http.MaxBytesReader(w, body, s.MaxUpload)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the pace of the reader limits it
	return end, nil
}

// CutUploads refuses what is still being uploaded, with status 503. It is called when the grace period of a stop is
// over.
func (s *Server) CutUploads() { s.uploads.Cut() }
