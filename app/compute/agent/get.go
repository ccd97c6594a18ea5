package agent

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/internal/byterange"
	"github.com/stagepost/stagepost/job"
)

// results serves the results with ranges, a tag and their digest (RFC 9530).
func (h *api) results(w http.ResponseWriter, r *http.Request) error {
	handle, err := handleOf(r)
	if err != nil {
		return err
	}
	f, made, err := h.app.openResults(r.Context(), handle)
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("ETag", `"`+made.SHA256+`"`)
	if sum, err := hex.DecodeString(made.SHA256); err == nil {
		w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	http.ServeContent(&paced{ResponseWriter: w}, byterange.Satisfiable(r), "", time.Time{}, f)
	return nil
}

// partial serves what there is now.
func (h *api) partial(w http.ResponseWriter, r *http.Request) error {
	handle, err := handleOf(r)
	if err != nil {
		return err
	}
	zip, err := h.app.Partial(r.Context(), handle)
	if err != nil {
		return err
	}
	defer zip.Close()
	w.Header().Set("Content-Type", "application/zip")
	return copyOut(w, zip)
}

// log serves standard output or error, to the end of the payload if that is wanted.
func (h *api) log(w http.ResponseWriter, r *http.Request) error {
	handle, err := handleOf(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	offset := int64(0)
	if text := q.Get("offset"); text != "" {
		if offset, err = strconv.ParseInt(text, 10, 64); err != nil {
			return job.Errorf(job.Invalid, "log", "", "the offset is not a number")
		}
	}
	unbound(w) // a silent payload is no slow reader
	text, err := h.app.Log(r.Context(), handle, q.Get("stream"), offset, q.Get("follow") == "1")
	if err != nil {
		return err
	}
	defer text.Close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	rest(w, patience)
	w.WriteHeader(http.StatusOK)
	if http.NewResponseController(w).Flush() != nil {
		// a follower learns that there is a log before there is anything in it
		return nil
	}
	unbound(w)
	return copyOut(w, text)
}

// copyOut sends as it comes. An error cuts the connection: the reader must not take it for the end.
func copyOut(w http.ResponseWriter, from io.Reader) error {
	out := &paced{ResponseWriter: w, flush: true}
	buffer := make([]byte, 64<<10)
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{from}, buffer); err != nil {
		panic(http.ErrAbortHandler) // the only way to cut an answer
	}
	return nil
}

// paced gives a reader time for each piece, not for all of them together.
type paced struct {
	http.ResponseWriter
	flush bool
}

// Write is part of io.Writer.
func (p *paced) Write(b []byte) (int, error) {
	rest(p.ResponseWriter, patience)
	n, err := p.ResponseWriter.Write(b)
	if p.flush && err == nil {
		err = http.NewResponseController(p.ResponseWriter).Flush()
	}
	return n, err
}

// Unwrap is for [http.ResponseController].
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// hint is one line of the stream of events.
type hint struct {
	Instance string `json:"instance,omitempty"` // the first line: from now on nothing is missed
	Job      job.ID `json:"job,omitempty"`      // something changed about it
	Capacity bool   `json:"room,omitempty"`     // the agent stands otherwise
	Beat     bool   `json:"beat,omitempty"`     // a sign of life
}

// events reports what changes, a JSON line each, and gives a sign of life every few seconds.
func (h *api) events(w http.ResponseWriter, r *http.Request) error {
	changes := h.app.hub.listen()
	defer h.app.hub.leave(changes)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := json.NewEncoder(&paced{ResponseWriter: w, flush: true})
	if out.Encode(hint{Instance: h.app.memory.name}) != nil {
		return nil
	}
	beats := time.NewTicker(beatEvery)
	defer beats.Stop()
	for {
		select {
		case <-r.Context().Done():
			return nil
		case <-h.app.life.Done():
			return nil
		case <-beats.C:
			if out.Encode(hint{Beat: true}) != nil {
				return nil
			}
			continue
		case <-changes.woken:
			signal(changes.woken)
		}
		ids, err := changes.next(r.Context(), h.app.life)
		if err != nil {
			return nil
		}
		for _, id := range h.app.jobs(r.Context(), ids) {
			if out.Encode(hint{Job: id}) != nil {
				return nil
			}
		}
		if out.Encode(hint{Capacity: true}) != nil {
			return nil
		}
	}
}
