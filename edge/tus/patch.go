package tus

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"
)

// piece is the write of a request.
type piece struct {
	offset int64
	length *int64 // of the whole upload, if the request states it; it must have been deferred
	sum    *promise
}

// patch writes a piece.
func (h *handler) patch(w http.ResponseWriter, r *http.Request, u *upload) error {
	if media := r.Header.Get("Content-Type"); media != pieceType {
		return refuse(http.StatusUnsupportedMediaType, "a piece must be %s, not %.60q", pieceType, media)
	}
	var p piece
	var there bool
	var err error
	if p.offset, there, err = number(r, "Upload-Offset"); err != nil {
		return err
	}
	if !there {
		return refuse(http.StatusBadRequest, "Upload-Offset is missing")
	}
	if p.sum, err = parseChecksum(r.Header.Get("Upload-Checksum")); err != nil {
		return refusal{http.StatusBadRequest, err}
	}
	length, there, err := number(r, "Upload-Length")
	if err != nil {
		return err
	}
	if there {
		p.length = &length
	}
	offset, err := h.take(w, r, u, p)
	if err != nil {
		return err
	}
	w.Header().Set("Upload-Offset", strconv.FormatInt(offset, 10))
	h.setExpiry(w, u)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// take locks the upload, writes the body to it and returns its new offset. If the error is nil, the whole body is
// synced.
func (h *handler) take(w http.ResponseWriter, r *http.Request, u *upload, p piece) (offset int64, err error) {
	control := http.NewResponseController(w)
	me := newWriter(func(t time.Time) { _ = control.SetReadDeadline(t) }) // a recorder in a test has none
	if err := h.begin(r, u, me, false); err != nil {
		return 0, err
	}
	defer h.release(u, me)
	go h.yield(u, me)
	defer unhurried(control)
	if p.offset != u.offset {
		return 0, refuse(http.StatusConflict, "the offset of the upload is %d, not %d", u.offset, p.offset)
	}
	if err := h.declare(u, p.length); err != nil {
		return 0, err
	}
	most := h.o.MaxSize - u.offset
	if u.info.Length != nil {
		most = *u.info.Length - u.offset
	}
	if r.ContentLength > most {
		return 0, refuse(http.StatusRequestEntityTooLarge, "at most %d more bytes are accepted, not %d", most,
			r.ContentLength)
	}
	if err := h.prove(u, p.sum); err != nil {
		return 0, err
	}
	body := &paced{body: r.Body, writer: me, idle: h.o.Idle, start: time.Now()}
	n, err := h.receive(u, body, most, p.sum)
	err = errors.Join(err, h.settle(u, n, p.sum, err))
	return u.offset, err
}

// declare sets the length of an upload that was created without one.
func (h *handler) declare(u *upload, length *int64) error {
	switch {
	case length == nil:
		return nil
	case u.info.Length != nil && *u.info.Length == *length:
		return nil // repeated
	case u.info.Length != nil:
		return refuse(http.StatusBadRequest, "Upload-Length is %d and cannot change", *u.info.Length)
	case *length > h.o.MaxSize:
		return refuse(http.StatusRequestEntityTooLarge, "an upload may have %d bytes, not %d", h.o.MaxSize, *length)
	case *length < u.offset:
		return refuse(http.StatusBadRequest, "Upload-Length is %d, and %d bytes have come already", *length, u.offset)
	}
	return h.note(u, func(i *info) { i.Length = length })
}

// prove records before a piece with a checksum that the bytes after it do not count yet.
func (h *handler) prove(u *upload, sum *promise) error {
	if sum == nil {
		return nil
	}
	from := u.offset
	return h.note(u, func(i *info) { i.Unproved = &from })
}

// note changes ID.json. The change is effective when it is on the disk.
func (h *handler) note(u *upload, change func(*info)) error {
	h.mu.Lock()
	before := u.info
	change(&u.info)
	h.mu.Unlock()
	if err := h.write(u); err != nil {
		h.mu.Lock()
		u.info = before
		h.mu.Unlock()
		return full(err)
	}
	return nil
}

// spaceEvery is the number of bytes of a piece after which the application is queried for free space again: other
// uploads write at the same time.
const spaceEvery = 16 << 20

// receive appends a body, at most space bytes, and returns how many are synced.
func (h *handler) receive(u *upload, body io.Reader, most int64, sum *promise) (n int64, err error) {
	f, err := h.root.OpenFile(u.id+dataEnding, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() {
		if failed := errors.Join(f.Sync(), f.Close()); failed != nil {
			n, err = 0, errors.Join(err, failed) // the system may have dropped any of it
		}
	}()
	buffer := make([]byte, 256<<10)
	for admitted := int64(0); ; {
		if n >= admitted {
			if err := h.o.Space(min(most-n, spaceEvery)); err != nil {
				return n, refused(err, http.StatusInsufficientStorage)
			}
			admitted = n + spaceEvery
		}
		got, failed := body.Read(buffer)
		if int64(got) > most-n {
			return n, refuse(http.StatusRequestEntityTooLarge, "the body has more than the %d bytes that are accepted",
				most)
		}
		written, full := writeAt(f, buffer[:got], u.offset+n)
		sum.add(buffer[:written])
		u.digest.add(u.offset+n, buffer[:written])
		n += int64(written)
		switch {
		case full != nil:
			return n, full
		case errors.Is(failed, io.EOF):
			return n, nil
		case failed != nil:
			return n, refuse(http.StatusBadRequest, "the body ended early: %w", failed)
		}
	}
}

func writeAt(f *os.File, b []byte, at int64) (int, error) {
	n, err := f.WriteAt(b, at)
	return n, full(err)
}

var errFull = errors.New("the disk of the server is full")

// full distinguishes a full disk from a failed one.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return refusal{http.StatusInsufficientStorage, errFull}
	}
	return err
}

// settle makes n bytes count, or truncates bytes that must not: those of a failed checksum, and a body that is too
// long.
func (h *handler) settle(u *upload, n int64, sum *promise, failed error) error {
	var wrong error
	var known refusal
	tooLong := errors.As(failed, &known) && known.status == http.StatusRequestEntityTooLarge
	if failed == nil && !sum.kept() {
		wrong = refuse(checksumMismatch, "the checksum does not match the received bytes")
	}
	keep := !tooLong && wrong == nil && (sum == nil || failed == nil)
	if keep {
		h.mu.Lock()
		u.offset += n
		h.mu.Unlock()
	} else {
		u.digest.forget()
	}
	if stat, err := h.root.Stat(u.id + dataEnding); err != nil {
		return errors.Join(wrong, err)
	} else if stat.Size() != u.offset {
		u.digest.forget()
		if err := h.cut(u, u.offset); err != nil {
			return errors.Join(wrong, err)
		}
	}
	if sum != nil {
		if err := h.note(u, func(i *info) { i.Unproved = nil }); err != nil {
			return errors.Join(wrong, err)
		}
	}
	return errors.Join(wrong, h.touch(u))
}

// paced bounds the time of a sender: the idle time for each part, and 1 KiB/s on average after the first minute.
type paced struct {
	body   io.Reader
	writer *writer
	idle   time.Duration
	start  time.Time
	n      int64
}

func (p *paced) Read(b []byte) (int, error) {
	until := time.Now().Add(p.idle)
	if slowest := p.start.Add(time.Minute + time.Duration(p.n/1024)*time.Second); slowest.Before(until) {
		until = slowest
	}
	if err := p.writer.mayRead(until); err != nil {
		return 0, err
	}
	n, err := p.body.Read(b)
	p.n += int64(n)
	if n > 0 {
		p.writer.heard()
	}
	return n, err
}
