package tunnel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// Refusal is the answer of a server that refuses the connection. [Listener.Err] returns it.
type Refusal struct {
	Status int    // of HTTP; 0: the connection was refused because of the agent's certificate
	Reason string // the server's reason, in one line
}

func (r *Refusal) Error() string {
	text := "the server refuses the tunnel"
	if r.Status != 0 {
		text += fmt.Sprintf(": %d %s", r.Status, http.StatusText(r.Status))
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	return text
}

// lasts reports whether only a person can resolve it: the token or certificate is not valid, or belongs to another
// agent. This may change while both run.
func (r *Refusal) lasts() bool {
	return r.Status == 0 || r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden
}

// refusedCertificate returns the refusal in an error of a connection, if the server refused the agent's certificate,
// and else the error.
func refusedCertificate(err error) error {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" || !strings.Contains(op.Err.Error(), "certificate") {
		return err
	}
	return &Refusal{Reason: op.Err.Error() + ": the certificate of this agent is not valid any more: enrol it again " +
		"(stagepost admin ca enrol at the server, stagepost work enrol here) and start it again"}
}

// mostReason bounds the reason of a refusal, in characters.
const mostReason = 300

// refusalOf reads a refusal and closes its body. The reason is the detail of a problem (RFC 9457), or the text of any
// other answer.
func refusalOf(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 16<<10)) // as much as arrives
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
	reason = strings.Join(strings.FieldsFunc(reason,
		func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " ")
	if letters := []rune(reason); len(letters) > mostReason {
		reason = string(letters[:mostReason]) + "..."
	}
	return &Refusal{answer.StatusCode, reason}
}

// pause returns the wait before the next attempt: doubled each time, with a random part, so that many agents do not
// return at once. After a lasting refusal it is long from the start.
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
