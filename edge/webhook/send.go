package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/internal/retryafter"
)

// Options of a sender. The zero Options are valid.
type Options struct {
	// Transport makes the connections. If URLs may lead into the internal network, it must check addresses. Defaults
	// to one without a proxy that checks none.
	Transport http.RoundTripper
	Timeout   time.Duration // of a whole attempt; defaults to 20 s
	Agent     string        // User-Agent; defaults to "stagepost"
	MediaType string        // of the bodies; defaults to [MediaType], that of events
}

// Sender sends notifications. It is safe for concurrent use.
type Sender struct {
	client    http.Client
	agent     string
	mediaType string
	timeout   time.Duration
}

// maxAnswer is the part of an answer that is read. The status decides; reading allows the reuse of the connection.
const maxAnswer = 64 << 10

// NewSender returns a sender.
func NewSender(o Options) *Sender {
	if o.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.Proxy = nil
		o.Transport = t
	}
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Second
	}
	if o.Agent == "" {
		o.Agent = "stagepost"
	}
	if o.MediaType == "" {
		o.MediaType = MediaType
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Sender{client: http.Client{Transport: o.Transport, CheckRedirect: stay}, agent: o.Agent,
		mediaType: o.MediaType, timeout: o.Timeout}
}

// Send posts a notification once. at is the time of this attempt; body is an event with the id ([Origin.Event]), unless
// [Options.MediaType] states another form. Any answer but 2xx is an *[Error]; redirects are
// not followed.
func (s *Sender) Send(ctx context.Context, target, id string, at time.Time, body []byte, secrets ...Secret) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return &Error{Err: errors.New("the URL cannot be used")} // its text may contain a secret
	}
	SetHeader(r.Header, id, at, body, secrets...)
	r.Header.Set("Content-Type", s.mediaType)
	r.Header.Set("User-Agent", s.agent)
	answer, err := s.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, for the same reason
		}
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			err = dial.Err // the message begins with the address
		}
		return &Error{Err: fmt.Errorf("%s: %w", r.URL.Host, err)}
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return &Error{
		Status: answer.StatusCode, RetryAfter: retryafter.Parse(answer.Header.Get("Retry-After"), at),
		Err: fmt.Errorf("%s answers %d %s", r.URL.Host, answer.StatusCode, http.StatusText(answer.StatusCode)),
	}
}

// Error is the failure of a notification.
type Error struct {
	Status     int           // of the answer; 0: no answer
	RetryAfter time.Duration // from a 429 or 503, at most a day; else 0
	Err        error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Gone reports whether the receiver refuses further notifications.
func (e *Error) Gone() bool { return e.Status == http.StatusGone }

// Temporary reports whether to retry. By the specification every status but 410 is retried: a receiver under
// maintenance answers anything.
func (e *Error) Temporary() bool { return !e.Gone() }
