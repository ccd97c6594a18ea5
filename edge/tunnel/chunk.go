package tunnel

import (
	"io"
	"net/http"
	"sync"
)

// HTTP/2 has a constant cost for each piece that is written or read. This file joins the pieces of long bodies, so
// that a transfer is as fast as over a connection of its own.
const (
	pieceSize = 256 << 10
	shortBody = 64 << 10 // the first bytes of a body are sent unbuffered: most bodies have no more
)

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// joining makes h read and write long bodies in large pieces. A flush sends at once.
func joining(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j := &joinedWriter{ResponseWriter: w}
		defer j.release()
		r.Body = &joinedReader{ReadCloser: r.Body}
		h.ServeHTTP(j, r)
		_ = j.send() // an error means that the connection has ended; no caller needs it
	})
}

// joinedWriter joins pieces.
type joinedWriter struct {
	http.ResponseWriter
	sent   int // bytes of the unbuffered beginning
	buffer *[pieceSize]byte
	held   int // bytes in the buffer
}

// Unwrap is for [http.ResponseController].
func (w *joinedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write is part of io.Writer. The error may be that of an earlier piece.
func (w *joinedWriter) Write(b []byte) (int, error) {
	if w.sent < shortBody || len(b) >= pieceSize {
		if err := w.send(); err != nil {
			return 0, err
		}
		w.sent += len(b)
		return w.ResponseWriter.Write(b)
	}
	if w.buffer == nil {
		w.buffer = pieces.Get().(*[pieceSize]byte)
	}
	written := 0
	for written < len(b) {
		n := copy(w.buffer[w.held:], b[written:])
		w.held += n
		written += n
		if w.held == pieceSize {
			if err := w.send(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// send writes the buffer.
func (w *joinedWriter) send() error {
	if w.held == 0 {
		return nil
	}
	_, err := w.ResponseWriter.Write(w.buffer[:w.held])
	w.held = 0
	return err
}

// FlushError is for [http.ResponseController].
func (w *joinedWriter) FlushError() error {
	if err := w.send(); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is part of http.Flusher.
func (w *joinedWriter) Flush() { _ = w.FlushError() }

func (w *joinedWriter) release() {
	if w.buffer != nil {
		pieces.Put(w.buffer)
		w.buffer = nil
	}
}

// joinedReader reads a long body in large pieces. Each read of an HTTP/2 body sends the peer a message about its flow
// control window.
type joinedReader struct {
	io.ReadCloser
	seen   int // bytes of the unbuffered beginning
	buffer *[pieceSize]byte
	left   []byte // unread bytes of the buffer
	err    error  // follows them
}

// Read is part of io.Reader.
func (r *joinedReader) Read(b []byte) (int, error) {
	if len(r.left) == 0 && r.err == nil {
		if r.seen < shortBody || len(b) >= pieceSize {
			n, err := r.ReadCloser.Read(b)
			r.seen += n
			return n, err
		}
		if r.buffer == nil {
			r.buffer = pieces.Get().(*[pieceSize]byte)
		}
		var n int
		n, r.err = r.ReadCloser.Read(r.buffer[:])
		r.left = r.buffer[:n]
	}
	n := copy(b, r.left)
	if r.left = r.left[n:]; len(r.left) > 0 || r.err == nil {
		return n, nil
	}
	if r.buffer != nil { // a body that is closed before its end does not return the buffer: a read may still run
		pieces.Put(r.buffer)
		r.buffer = nil
	}
	return n, r.err
}
