package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stagepost/stagepost/internal/byterange"
)

func notFound(w http.ResponseWriter, id uint32) {
	answerStatus(w, http.StatusNotFound, 0, Unknown, fmt.Sprintf("Job %d not found in the database", id))
}

// forbidden answers an operator who asks for files of another user.
func (u *users) forbidden(w http.ResponseWriter, r *http.Request, id uint32, s Status) {
	u.o.Refused(r, errForeign)
	answerStatus(w, http.StatusForbidden, id, s, "The files are for the owner of the job and for admins")
}

// download gives the ZIP of a Completed job and the state of any other, also of one that failed.
func (u *users) download(w http.ResponseWriter, r *http.Request, id uint32, v View) {
	if v.Status != Completed {
		u.state(w, id, v)
		return
	}
	if !reads(r.Context(), v.Owner) {
		u.forbidden(w, r, id, v.Status)
		return
	}
	res, err := u.b.Result(r.Context(), id)
	if err != nil {
		// Between the two questions the job may have been cleaned.
		if now, again := u.b.Job(r.Context(), id); again == nil && now.Status != Completed {
			u.state(w, id, now)
			return
		}
		u.fault("download", id, err)
		answerStatus(w, http.StatusInternalServerError, id, Completed, "Error reading output file")
		return
	}
	defer res.File.Close()
	serveZIP(w, r, res, u.o.Compat)
}

func (u *users) state(w http.ResponseWriter, id uint32, v View) {
	if !v.Status.Known() {
		v.Status = Unknown
	}
	if u.plain() {
		answerStatus(w, http.StatusOK, id, v.Status, "")
		return
	}
	message := v.Message
	if message == "" {
		message = v.Reason
	}
	answer(w, http.StatusOK, jsonMedia, encode(fullBody{
		StatusBody: StatusBody{id, v.Status, message},
		Reason:     v.Reason, ExitCode: v.ExitCode, Signal: v.Signal, QueuePosition: v.QueuePosition,
		Attempt: v.Attempt,
		Created: instant(v.Created), Started: instant(v.Started), Finished: instant(v.Finished),
		Expires: instant(v.Expires),
		Public:  v.Public,
	}))
}

// serveZIP answers 200 with the length and no content disposition; 206 only if a range was asked for, and never in
// Strict, which has no ranges.
func serveZIP(w http.ResponseWriter, r *http.Request, res Result, c Compat) {
	h := w.Header()
	h.Set("Content-Type", zipMedia)
	if tag := res.ETag; tag != "" {
		if !strings.HasSuffix(tag, `"`) {
			tag = `"` + tag + `"`
		}
		h.Set("ETag", tag)
	}
	if c == Strict {
		r = r.Clone(r.Context())
		for _, name := range []string{"Range", "If-Range", "If-None-Match", "If-Match", "If-Modified-Since",
			"If-Unmodified-Since"} {
			r.Header.Del(name)
		}
	}
	http.ServeContent(w, byterange.Satisfiable(r), "", res.Modified, res.File)
}

// partial passes on what a job has made so far. The status in its bodies is always Unknown.
func (u *users) partial(w http.ResponseWriter, r *http.Request, id uint32, v View) {
	if !reads(r.Context(), v.Owner) {
		u.forbidden(w, r, id, v.Status)
		return
	}
	err := streamZIP(w, r, func(begin func() io.Writer) error { return u.b.Partial(r.Context(), id, begin) })
	switch {
	case err == nil:
	case errors.Is(err, ErrNotFound):
		notFound(w, id)
	case errors.Is(err, ErrNoPayload):
		answerStatus(w, http.StatusNotFound, id, Unknown, "Job payload not found on client")
	case errors.Is(err, ErrNoService):
		answerStatus(w, http.StatusBadRequest, id, Unknown, "Invalid service configuration")
	default:
		u.fault("download_partial", id, err)
		answerStatus(w, http.StatusInternalServerError, id, Unknown, "Error retrieving partial data from client")
	}
}

var errNoBody = errors.New("the request has no answer body")

// streamZIP lets make write a ZIP of unknown length. The error is one from before the ZIP began; a later one cuts the
// connection, which is the only way to report it. HEAD gets the headers as soon as a ZIP would begin.
func streamZIP(w http.ResponseWriter, r *http.Request, make func(begin func() io.Writer) error) error {
	begun := false
	err := make(func() io.Writer {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", zipMedia)
			w.WriteHeader(http.StatusOK)
		}
		if r.Method == http.MethodHead {
			return refusing{}
		}
		return w
	})
	switch {
	case !begun && err == nil:
		return errors.New("no ZIP was made")
	case !begun:
		return err
	case err != nil && r.Method != http.MethodHead:
		panic(http.ErrAbortHandler) // net/http's way to close the connection before the end of the body
	}
	return nil
}

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errNoBody }

// terminate cancels a job. The status in its bodies is always Unknown; scripts inspect /download for Killed.
func (u *users) terminate(w http.ResponseWriter, r *http.Request, id uint32, _ View) {
	already, err := u.b.Terminate(r.Context(), id)
	switch {
	case errors.Is(err, ErrNotFound):
		notFound(w, id)
	case err != nil:
		u.fault("terminate", id, err)
		answerStatus(w, http.StatusInternalServerError, id, Unknown, "could not terminate job")
	case already != "" && u.o.Compat != Strict:
		answerStatus(w, http.StatusOK, id, Unknown, "job already "+already.Stored())
	default:
		answerStatus(w, http.StatusOK, id, Unknown, "job terminated")
	}
}
