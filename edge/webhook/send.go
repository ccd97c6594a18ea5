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
	"strconv"
	"time"
)

// Options of a sender. The zero Options work.
type Options struct {
	// Transport makes the connections. Callers whose URLs may lead into their own network give one that judges addresses. Defaults to one
	// without a proxy that judges nothing.
	Transport http.RoundTripper
	Timeout   time.Duration // of a whole try; defaults to 20 s
	Agent     string        // User-Agent; defaults to "stagepost"
}

// Sender sends notifications. It is safe for concurrent use.
type Sender struct {
	client  http.Client
	agent   string
	timeout time.Duration
}

// maxAnswer is how much of an answer is read. The status decides; reading lets the connection be used again.
const maxAnswer = 64 << 10

// NewSender makes a sender.
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
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Sender{client: http.Client{Transport: o.Transport, CheckRedirect: stay}, agent: o.Agent, timeout: o.Timeout}
}

// Send posts a notification once. at is the time of this try. Any answer but 2xx is an *[Error]; redirects are not followed.
func (s *Sender) Send(ctx context.Context, target, id string, at time.Time, body []byte, secrets ...Secret) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return &Error{Err: errors.New("the URL cannot be used")} // its text may hold a secret
	}
	SetHeader(r.Header, id, at, body, secrets...)
	r.Header.Set("User-Agent", s.agent)
	answer, err := s.client.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, for the same reason
		}
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			err = dial.Err // the address stands in front
		}
		return &Error{Err: fmt.Errorf("%s: %w", r.URL.Host, err)}
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return &Error{
		Status: answer.StatusCode, RetryAfter: retryAfter(answer.Header.Get("Retry-After"), at),
		Err: fmt.Errorf("%s answers %d %s", r.URL.Host, answer.StatusCode, http.StatusText(answer.StatusCode)),
	}
}

// Error says that a notification was not taken.
type Error struct {
	Status     int           // of the answer; 0: there was none
	RetryAfter time.Duration // that a 429 or 503 asked for, at most a day; else 0
	Err        error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Gone tells that the receiver wants no more notifications.
func (e *Error) Gone() bool { return e.Status == http.StatusGone }

// Temporary tells whether to try again. The specification has every status but 410 tried again: a receiver that is being set up or mended
// answers anything.
func (e *Error) Temporary() bool { return !e.Gone() }

// retryAfter reads both forms of RFC 9110, section 10.2.3. Nonsense counts as 0, and nothing above a day is believed.
func retryAfter(value string, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, most)
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), most)
	}
	return 0
}
