package wire

import (
	"maps"
	"net/http"
	"slices"
)

// sent are the headers that the original sends, and the one that a refused token needs (RFC 9110, 11.6.1); it has no
// tokens.
var sent = []string{"Allow", "Content-Length", "Content-Type", "Date", "Location", "Www-Authenticate"}

// bare gives a handler that sends no other headers in Strict.
func (c Compat) bare(h http.Handler) http.Handler {
	if c != Strict {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&bareWriter{ResponseWriter: w}, r)
	})
}

type bareWriter struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader is part of http.ResponseWriter.
func (b *bareWriter) WriteHeader(code int) {
	b.begun = true
	maps.DeleteFunc(b.Header(), func(name string, _ []string) bool { return !slices.Contains(sent, name) })
	b.ResponseWriter.WriteHeader(code)
}

// Write is part of io.Writer.
func (b *bareWriter) Write(p []byte) (int, error) {
	if !b.begun {
		b.WriteHeader(http.StatusOK)
	}
	return b.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (b *bareWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }
