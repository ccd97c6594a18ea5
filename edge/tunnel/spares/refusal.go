package spares

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// Refusal is the answer of a server that does not take the connection. [Listener.Err] gives it.
type Refusal struct {
	Status int    // of HTTP
	Reason string // what the server says, in one line
}

func (r *Refusal) Error() string {
	text := fmt.Sprintf("the server refuses the tunnel: %d %s", r.Status, http.StatusText(r.Status))
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// lasts tells whether only people can end it: the server knows the agent's token not, or as another's. That may happen while both run.
func (r *Refusal) lasts() bool {
	return r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden
}

// mostReason bounds how much of a refusal is told, in characters.
const mostReason = 300

// refusalOf reads a refusal and closes its body. Of a problem (RFC 9457) the detail is told, of any other answer its text.
func refusalOf(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 16<<10)) // what there is of it
	_ = answer.Body.Close()
	reason := string(text)
	var problem struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(text, &problem) == nil {
		if reason = problem.Detail; reason == "" {
			reason = problem.Title
		}
	}
	reason = strings.Join(strings.FieldsFunc(reason, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " ")
	if letters := []rune(reason); len(letters) > mostReason {
		reason = string(letters[:mostReason]) + "..."
	}
	return &Refusal{answer.StatusCode, reason}
}

// pause is how long to wait before the next attempt: twice as long each time, and a random part of that, so that many agents do not come back at once. After a refusal that lasts it
// is long from the first on.
func (l *Listener) pause(failed int, refused bool) time.Duration {
	if refused {
		return l.o.Refused + rand.N(l.o.Refused/2+1)
	}
	d := l.o.Backoff << min(failed-1, 20)
	if d > l.o.BackoffMax || d <= 0 {
		d = l.o.BackoffMax
	}
	return d/2 + rand.N(d/2+1)
}
