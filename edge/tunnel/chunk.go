package tunnel

import (
	"io"
	"net/http"
	"sync"
)

// HTTP/2 costs the same for each piece that is written or read, however small it is. Pieces of long bodies are put together here: a transfer takes as long
// as over a connection of its own.
const (
	pieceSize = 256 << 10
	shortBody = 64 << 10 // the first bytes of a body go as they are: most bodies have no more, and need no buffer
)

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// joining has h read and write long bodies in large pieces. What it flushes goes at once.
func joining(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j := &joinedWriter{ResponseWriter: w}
		defer j.release()
		r.Body = &joinedReader{ReadCloser: r.Body}
		h.ServeHTTP(j, r)
		_ = j.send() // the connection has ended if it fails, and nobody hears of it
	})
}

// joinedWriter puts pieces together.
type joinedWriter struct {
	http.ResponseWriter
	sent   int // bytes of the beginning
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

// send writes what is in the buffer.
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

// joinedReader reads a long body in large pieces. Each read of a body of HTTP/2 sends the peer a message about its flow control window.
type joinedReader struct {
	io.ReadCloser
	seen   int // bytes of the beginning
	buffer *[pieceSize]byte
	left   []byte // of the buffer, that the caller has not read yet
	err    error  // comes after them
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
	if r.buffer != nil { // a body that is closed before its end does not give it back: a read may go on at the same time
		pieces.Put(r.buffer)
		r.buffer = nil
	}
	return n, r.err
}
