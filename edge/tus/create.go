package tus

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
)

// create creates an upload, and writes the body to it if there is one (creation-with-upload).
func (h *handler) create(w http.ResponseWriter, r *http.Request) error {
	u, err := h.ask(r)
	if err != nil {
		return err
	}
	sum, err := parseChecksum(r.Header.Get("Upload-Checksum"))
	if err != nil {
		return refusal{http.StatusBadRequest, err}
	}
	with := r.ContentLength != 0 || r.Header.Get("Content-Type") == pieceType
	if with && r.Header.Get("Content-Type") != pieceType {
		return refuse(http.StatusUnsupportedMediaType, "a creation with a body must be %s, not %.60q", pieceType,
			r.Header.Get("Content-Type"))
	}
	if err := h.admit(u); err != nil {
		return err
	}
	w.Header().Set("Location", h.prefix+"/"+u.id)
	if with {
		offset, err := h.take(w, r, u, piece{sum: sum})
		if err != nil {
			w.Header().Del("Location")
			return errors.Join(err, h.Remove(u.id))
		}
		w.Header().Set("Upload-Offset", strconv.FormatInt(offset, 10))
	}
	h.setExpiry(w, u)
	w.WriteHeader(http.StatusCreated)
	return nil
}

// ask reads the headers of a creation.
func (h *handler) ask(r *http.Request) (*upload, error) {
	length, known, err := number(r, "Upload-Length")
	if err != nil {
		return nil, err
	}
	deferred := r.Header.Values("Upload-Defer-Length")
	switch {
	case len(deferred) > 1 || len(deferred) == 1 && deferred[0] != "1":
		return nil, refuse(http.StatusBadRequest, "Upload-Defer-Length must be 1, not %.40q",
			strings.Join(deferred, ", "))
	case known == (len(deferred) == 1):
		return nil, refuse(http.StatusBadRequest, "exactly one of Upload-Length and Upload-Defer-Length is required")
	case length > h.o.MaxSize:
		return nil, refuse(http.StatusRequestEntityTooLarge, "an upload may have %d bytes, not %d", h.o.MaxSize, length)
	case r.Header.Get("Upload-Concat") != "":
		return nil, refuse(http.StatusBadRequest, "this server does not support concatenation")
	}
	metadata := strings.Join(r.Header.Values("Upload-Metadata"), ",")
	if _, err := parseMetadata(metadata); err != nil {
		return nil, refusal{http.StatusBadRequest, err}
	}
	u := &upload{id: newID(), used: h.o.Clock()}
	u.info = info{Owner: h.o.Owner(r), Metadata: metadata, Created: u.used}
	if known {
		u.info.Length = &length
	}
	return u, nil
}

// refused is a refusal of the application, with the status of its error or the caller's default.
func refused(err error, status int) error {
	var with interface{ HTTPStatus() int }
	if errors.As(err, &with) {
		status = with.HTTPStatus()
	}
	return refusal{status, err}
}

// admit checks whether an upload is allowed, and creates it on disk.
func (h *handler) admit(u *upload) error {
	bytes := h.o.MaxSize
	if u.info.Length != nil {
		bytes = *u.info.Length
	}
	h.creating.Lock()
	defer h.creating.Unlock()
	return h.alone(func() error {
		if err := h.o.MayCreate(u.info.Owner, bytes); err != nil {
			return refused(err, http.StatusForbidden)
		}
		if u.info.Length != nil {
			if err := h.o.Space(bytes); err != nil {
				return refused(err, http.StatusInsufficientStorage)
			}
		}
		if err := h.add(u); err != nil {
			return full(err)
		}
		if err := h.touch(u); err != nil {
			return errors.Join(err, h.erase(u.id))
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.uploads[u.id] = u
		return nil
	})
}
