package tus

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Names of the protocol.
const (
	protocolVersion  = "1.0.0"
	extensions       = "creation,creation-defer-length,creation-with-upload,termination,checksum,expiration"
	pieceType        = "application/offset+octet-stream"
	checksumMismatch = 460
)

// refusal is an error with its status in the protocol.
type refusal struct {
	status int
	err    error
}

func (e refusal) Error() string { return e.err.Error() }
func (e refusal) Unwrap() error { return e.err }

func refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Errorf(format, args...)}
}

// unknown is the same error for an upload that never existed, was removed, or belongs to another owner.
func unknown() error { return refusal{http.StatusNotFound, ErrNotFound} }

// handler serves the protocol below a prefix.
type handler struct {
	*Store
	prefix string // without a slash at the end
}

// Handler serves OPTIONS and POST at the prefix, and OPTIONS, HEAD, PATCH and DELETE below it. Authentication
// precedes it; Options.Owner defines the owner of an upload. It sets the deadlines of its connections itself: the
// caller must bound neither body nor time.
func (s *Store) Handler(prefix string) http.Handler {
	return &handler{Store: s, prefix: "/" + strings.Trim(prefix, "/")}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Tus-Resumable", protocolVersion)
	w.Header().Set("Cache-Control", "no-store")
	method := r.Method
	if other := r.Header.Get("X-HTTP-Method-Override"); other != "" && method == http.MethodPost {
		method = other // not of a GET, which guards against requests from other origins let pass
	}
	if method == http.MethodOptions {
		h.options(w)
		return
	}
	if err := h.serve(w, r, method); err != nil {
		h.fail(w, r, err)
	}
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, method string) error {
	if v := r.Header.Get("Tus-Resumable"); v != protocolVersion {
		w.Header().Set("Tus-Version", protocolVersion)
		return refuse(http.StatusPreconditionFailed, "Tus-Resumable must be %s, not %.20q", protocolVersion, v)
	}
	rest, ok := strings.CutPrefix(r.URL.Path, h.prefix)
	id := strings.TrimPrefix(rest, "/")
	if !ok || (rest != "" && rest[0] != '/') {
		return unknown()
	}
	if id == "" {
		if method != http.MethodPost {
			w.Header().Set("Allow", "OPTIONS, POST")
			return refuse(http.StatusMethodNotAllowed, "uploads are made with POST")
		}
		return h.create(w, r)
	}
	handlers := map[string]func(http.ResponseWriter, *http.Request, *upload) error{
		http.MethodHead: h.head, http.MethodPatch: h.patch, http.MethodDelete: h.remove,
	}
	handle := handlers[method]
	if handle == nil {
		w.Header().Set("Allow", "OPTIONS, HEAD, PATCH, DELETE")
		return refuse(http.StatusMethodNotAllowed, "an upload takes HEAD, PATCH and DELETE")
	}
	u, err := h.find(id, h.o.Owner(r))
	if err != nil {
		return answered(err)
	}
	return handle(w, r, u)
}

// begin makes w the writer of an upload that has not expired.
func (h *handler) begin(r *http.Request, u *upload, w *writer, insist bool) error {
	if err := h.hold(r.Context(), u, w, insist); err != nil {
		return answered(err)
	}
	h.mu.Lock()
	expired := h.expired(u)
	h.mu.Unlock()
	if expired {
		h.release(u, w)
		return refuse(http.StatusGone, "the upload has expired")
	}
	return nil
}

// answered gives the errors of an upload that cannot be used their status.
func answered(err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return unknown()
	case errors.Is(err, ErrBusy):
		return refusal{http.StatusLocked, err}
	}
	return err
}

// fail answers with a refusal. An error of the disk is for the operator, not for the client.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	status := http.StatusInternalServerError
	var known refusal
	if errors.As(err, &known) {
		status = known.status
	}
	h.o.Fail(w, r, status, err)
}

// options lists the capabilities of the server.
func (h *handler) options(w http.ResponseWriter) {
	w.Header().Set("Tus-Version", protocolVersion)
	w.Header().Set("Tus-Extension", extensions)
	w.Header().Set("Tus-Max-Size", strconv.FormatInt(h.o.MaxSize, 10))
	w.Header().Set("Tus-Checksum-Algorithm", algorithms)
	w.WriteHeader(http.StatusNoContent)
}

// failPlain is the default of Options.Fail.
func failPlain(w http.ResponseWriter, status int, err error) {
	text := err.Error()
	if status == http.StatusInternalServerError {
		text = "the upload cannot be stored"
	}
	http.Error(w, text, status)
}

// head returns the offset of an upload: the synced and verified bytes, also during a write at this store.
func (h *handler) head(w http.ResponseWriter, r *http.Request, u *upload) error {
	h.rouse(r.Context(), u)
	me := newBrief()
	err := h.begin(r, u, me, false)
	if err == nil {
		defer h.release(u, me)
	} else if !errors.Is(err, ErrBusy) || errors.Is(err, errElsewhere) {
		return err
	}
	h.mu.Lock()
	offset, length, metadata := u.offset, u.info.Length, u.info.Metadata
	h.mu.Unlock()
	w.Header().Set("Upload-Offset", strconv.FormatInt(offset, 10))
	if length != nil {
		w.Header().Set("Upload-Length", strconv.FormatInt(*length, 10))
	} else {
		w.Header().Set("Upload-Defer-Length", "1")
	}
	if metadata != "" {
		w.Header().Set("Upload-Metadata", metadata)
	}
	h.setExpiry(w, u)
	w.WriteHeader(http.StatusOK)
	return nil
}

// remove ends an upload and its writer.
func (h *handler) remove(w http.ResponseWriter, r *http.Request, u *upload) error {
	me := newBrief()
	if err := h.begin(r, u, me, true); err != nil {
		return err
	}
	if err := h.end(u, me); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *handler) setExpiry(w http.ResponseWriter, u *upload) {
	h.mu.Lock()
	at := h.expires(u)
	h.mu.Unlock()
	w.Header().Set("Upload-Expires", at.UTC().Format(http.TimeFormat))
}

// number parses a header that must be a whole number from 0 on, and occur once.
func number(r *http.Request, name string) (n int64, there bool, err error) {
	all := r.Header.Values(name)
	if len(all) == 0 {
		return 0, false, nil
	}
	if len(all) == 1 && all[0] != "" && strings.Trim(all[0], "0123456789") == "" {
		if n, err = strconv.ParseInt(all[0], 10, 64); err == nil {
			return n, true, nil
		}
	}
	return 0, true, refuse(http.StatusBadRequest, "%s must be one whole number, not %.40q", name,
		strings.Join(all, ", "))
}

// unhurried removes the write deadline for an answer after a long body; a recorder in a test has no deadlines.
func unhurried(control *http.ResponseController) {
	_ = control.SetWriteDeadline(time.Now().Add(30 * time.Second))
}
