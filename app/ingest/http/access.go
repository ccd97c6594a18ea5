package ingesthttp

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/access"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/transfer"
)

// Access makes packages of what is stored. *access.App does.
type Access interface {
	Request(ctx context.Context, r access.Request) (access.Status, error)
	Status(ctx context.Context, token string) (access.Status, error)
	Open(ctx context.Context, token string) (*access.Package, error)
}

func (s *Handlers) access() (Access, error) {
	if s.Access == nil {
		return nil, problem.Absent("ingest", "this server gives no stored objects back", "module ingest")
	}
	return s.Access, nil
}

// requestAccess answers 202 with the token: the package is made meanwhile.
func (s *Handlers) requestAccess(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.access()
	if err != nil {
		return err
	}
	asked, err := server.Decode[api.AccessRequest](r, true)
	if err != nil {
		return err
	}
	if asked.Key, err = server.KeyOf(r, asked.Key, asked); err != nil {
		return err
	}
	asked.Requester = server.OwnerFor(r.Context(), asked.Requester)
	if err := server.CheckName("requester", asked.Requester); err != nil {
		return err
	}
	user, staff := server.UserOf(r.Context()), false
	if user == "" && !s.Owns(r.Context(), "") { // no admin
		user, staff = server.OwnerOf(r.Context()), true
	}
	st, err := app.Request(r.Context(), access.Request{
		Object: asked.Object, LocalID: asked.LocalID, Owner: asked.Owner, Version: asked.Version, Files: asked.Files,
		Format: asked.Format, Name: asked.Name,
		Requester: asked.Requester, Key: asked.Key, User: user, Staff: staff,
		Token: server.TokenOf(r.Context()),
	})
	if errors.Is(err, access.ErrForeign) {
		return problem.Refuse(http.StatusForbidden, job.Refused, "%w", err)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/access/"+st.Token)
	server.Replayed(w, r)
	return server.ReplyAs(w, http.StatusAccepted, viewAccess(&st))
}

func (s *Handlers) accessStatus(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.access()
	if err != nil {
		return err
	}
	st, err := app.Status(r.Context(), r.PathValue("token"))
	if err != nil {
		return err
	}
	if st.Code == access.CodeQueued || st.Code == access.CodeNotReady {
		w.Header().Set("Retry-After", retryAfter)
	}
	return server.Reply(w, viewAccess(&st))
}

// retryAfter is after how many seconds a client may ask again for a package that is not ready.
const retryAfter = "5"

func viewAccess(st *access.Status) api.Access {
	self := "/api/v1/access/" + st.Token
	return api.Access{
		Token: st.Token, Job: st.Job, State: st.State, Status: st.Code, Message: st.Message, Cause: st.Cause,
		Object: st.Object, Version: st.Version,
		Format: st.Format, File: st.File, Files: st.Files, Bytes: st.Bytes, Size: st.Size, ETag: st.ETag,
		Queue: st.Queue, Place: st.Place, Done: st.Done,
		Requested: st.Requested, Ready: st.Ready, Expires: st.Expires, Damaged: st.Damaged,
		Links: map[string]string{"self": self, "content": self + "/content", "job": "/api/v1/jobs/" +
			url.PathEscape(string(st.Job))},
	}
}

// accessContent gives a package, or a part of it (RFC 9110, sections 13 and 14).
func (s *Handlers) accessContent(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.access()
	if err != nil {
		return err
	}
	p, err := app.Open(r.Context(), r.PathValue("token"))
	if err != nil {
		if errors.Is(err, access.ErrNotReady) {
			w.Header().Set("Retry-After", retryAfter)
		}
		return err
	}
	defer func() {
		if err := p.Close(); err != nil { // too late for the reader
			s.Log.Error("a package was not closed", "package", p.File, "error", err)
		}
	}()
	h := w.Header()
	h.Set("Content-Type", p.Media)
	h.Set("Content-Disposition", transfer.Attachment(p.File))
	h.Set("ETag", p.ETag)
	transfer.IgnoreRange(r)
	return transfer.Serve(w, r, s.Log, p.File, p.Modified, p)
}
