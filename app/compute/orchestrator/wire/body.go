package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// StatusBody is the JSON that users get, in this order of keys.
type StatusBody struct {
	ID      uint32 `json:"id"`
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// fullBody is a StatusBody with the keys that the original lacks. They follow its own, and what is not known is left
// out.
type fullBody struct {
	StatusBody
	Reason        string     `json:"reason,omitempty"`
	ExitCode      *int       `json:"exit_code,omitempty"`
	Signal        string     `json:"signal,omitempty"`
	QueuePosition int        `json:"queue_position,omitempty"`
	Attempt       int        `json:"attempt,omitempty"`
	Created       *time.Time `json:"created_at,omitempty"`
	Started       *time.Time `json:"started_at,omitempty"`
	Finished      *time.Time `json:"finished_at,omitempty"`
	Expires       *time.Time `json:"expires_at,omitempty"`
	Public        string     `json:"public_id,omitempty"`
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// encode writes JSON as the original does: no line end, and <, > and & as they are.
func encode[T any](v T) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null") // no type of this package can fail
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// answer sends a whole body of a known type. HEAD gets its length only.
func answer(w http.ResponseWriter, code int, media string, body []byte) {
	h := w.Header()
	if media != "" {
		h.Set("Content-Type", media)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	w.Write(body)
}

const (
	jsonMedia = "application/json"
	textMedia = "text/plain; charset=utf-8"
	zipMedia  = "application/zip"
)

func answerStatus(w http.ResponseWriter, code int, id uint32, s Status, message string) {
	answer(w, code, jsonMedia, encode(StatusBody{ID: id, Status: s, Message: message}))
}

func answerEmpty(w http.ResponseWriter, code int) { answer(w, code, "", nil) }
