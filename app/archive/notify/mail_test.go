package notify

import (
	"context"
	"errors"
	"io"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/lifecycle"
)

// server is an SMTP server of the test process.
type server struct {
	mu     sync.Mutex // guards the rest
	answer func(step string) error
	got    []netmail.Message
}

func (s *server) NewSession(c *smtp.Conn) (smtp.Session, error) { return &session{s, c}, nil }

func (s *server) set(answer func(step string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

var errHangUp = errors.New("it hangs up")

type session struct {
	*server
	conn *smtp.Conn
}

func (s *session) at(step string) error {
	s.mu.Lock()
	err := s.answer(step)
	s.mu.Unlock()
	if errors.Is(err, errHangUp) {
		_ = s.conn.Conn().Close()
	}
	return err
}

func (s *session) Reset()                                    {}
func (s *session) Logout() error                             { return nil }
func (s *session) Mail(string, *smtp.MailOptions) error      { return s.at("mail") }
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error { return s.at("rcpt " + to) }

func (s *session) Data(r io.Reader) error {
	m, err := netmail.ReadMessage(r)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, m.Body); err != nil {
		return err
	}
	if err := s.at("data"); err != nil {
		return err
	}
	s.mu.Lock()
	s.got = append(s.got, *m)
	s.mu.Unlock()
	return s.at("accepted")
}

// open starts the server and gives a sender.
func open(t *testing.T) (*server, *Mail) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{answer: func(string) error { return nil }}
	web := smtp.NewServer(s)
	web.Domain = "localhost"
	done := make(chan struct{})
	go func() { defer close(done); _ = web.Serve(l) }()
	t.Cleanup(func() { _ = web.Close(); <-done })
	sender, err := mail.SMTP(mail.Options{Addr: l.Addr().String(), TLS: mail.NoTLS, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s, &Mail{Sender: sender, From: "stagepost@example.org", Host: "example.org"}
}

var anEnd = End{
	Job: "arc_1", Number: 7, Source: "campus", Course: "5", Name: "Algebra", Before: "Cleanup", State: "Completed",
	Outcome: lifecycle.OK, At: time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC),
}

// TestMailOverSMTP: a mail that the server accepts is delivered; after 4xx, a broken connection and without a server it
// is tried again under the same Message-ID; after 5xx it is not.
func TestMailOverSMTP(t *testing.T) {
	s, m := open(t)
	msg := OfEnd([]string{"Ann <ann@example.org>"}, 12, anEnd)[0]
	for _, c := range []struct {
		name, at string
		err      error
		arrives  int
		ok, temp bool
	}{
		{"control", "", nil, 1, true, false},
		{"busy", "data", &smtp.SMTPError{Code: 451, Message: "later"}, 0, false, true},
		{"greylisted", "rcpt ann@example.org", &smtp.SMTPError{Code: 450, Message: "later"}, 0, false, true},
		{"breaks off before", "data", errHangUp, 0, false, true},
		{"breaks off after it accepted", "accepted", errHangUp, 1, false, true},
		{"unknown receiver", "rcpt ann@example.org", &smtp.SMTPError{Code: 550, Message: "unknown"}, 0, false, false},
		{"refused text", "data", &smtp.SMTPError{Code: 554, Message: "spam"}, 0, false, false},
	} {
		s.set(func(step string) error {
			if step == c.at {
				return c.err
			}
			return nil
		})
		before := len(s.got)
		err := m.Deliver(t.Context(), msg)
		if (err == nil) != c.ok || err != nil && cause.Temporary(err) != c.temp || len(s.got)-before != c.arrives {
			t.Errorf("%s: %v (temporary %t), %d arrived", c.name, err, cause.Temporary(err), len(s.got)-before)
		}
	}
	for i := range s.got {
		h := s.got[i].Header
		if h.Get("Message-Id") != "<arc_1.completed."+hashOf("ann <ann@example.org>")+"@example.org>" ||
			h.Get("To") != `"Ann" <ann@example.org>` || h.Get("Subject") != "Archive complete: Algebra (job 7)" {
			t.Errorf("mail %d: %v", i, h)
		}
	}
	down := &Mail{From: m.From, Host: m.Host, Sender: closed(t)}
	if err := down.Deliver(t.Context(), msg); err == nil || !cause.Temporary(err) {
		t.Errorf("no server: %v", err)
	}
	msg.Body = []byte("{")
	if err := m.Deliver(t.Context(), msg); err == nil || !strings.Contains(err.Error(), msg.Key) {
		t.Errorf("no letter: %v", err)
	}
}

// TestVerifyCommand: the command needs the root certificate if there is a time stamp; the control has none.
func TestVerifyCommand(t *testing.T) {
	e := anEnd
	text := e.text("")
	if !strings.Contains(text, "stagepost archive verify arc_1\n") || strings.Contains(text, "ROOT") {
		t.Errorf("control: %s", text)
	}
	e.Signed = e.At
	text = e.text("https://x.example")
	if !strings.Contains(text, "stagepost archive verify arc_1 --ca ROOT.pem\n") ||
		!strings.Contains(text, "Time stamp: 2026-11-23 16:00 UTC") {
		t.Error(text)
	}
}

// closed is a sender to an address on which no server listens.
func closed(t *testing.T) mail.Sender {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := mail.SMTP(mail.Options{Addr: l.Addr().String(), TLS: mail.NoTLS, Timeout: time.Minute})
	if err := errors.Join(err, l.Close()); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMailKeys: keys and ids differ by receiver, and not by the attempt; an address that is named twice gets one mail.
func TestMailKeys(t *testing.T) {
	to := []string{"ann@example.org", "ben@example.org", "Ann@example.org"}
	first, second := OfEnd(to, 12, anEnd), OfEnd(to, 12, anEnd)
	if len(first) != 2 || first[0].Key != second[0].Key || first[0].Key == first[1].Key {
		t.Errorf("%v, %v", first, second)
	}
	if other := OfEnd(to, 13, anEnd); other[0].Key == first[0].Key {
		t.Error("another transition has the same key")
	}
}

// checked is a sender that only validates.
type checked struct{}

func (checked) Send(_ context.Context, m mail.Message) error { return m.Validate() }

// FuzzMail: whatever a source calls a course and an activity, and whatever an error states, the mail can be sent.
func FuzzMail(f *testing.F) {
	f.Add("Algebra\r\nBcc: eve@example.org", "5", "line\nline\x00\xff", "a.tar.gz")
	f.Add("\u202egnirts", "\u2028", strings.Repeat("é", 5000), "")
	f.Fuzz(func(t *testing.T, name, course, reason, file string) {
		m := &Mail{Sender: checked{}, From: "stagepost@example.org", Host: "example.org", Link: "https://example.org"}
		for _, outcome := range []lifecycle.Outcome{
			lifecycle.OK, lifecycle.Failed, lifecycle.TimedOut, lifecycle.Cancelled, lifecycle.None,
		} {
			e := anEnd
			e.Name, e.Course, e.Message, e.Package, e.Outcome = name, course, reason, file, outcome
			if err := m.Deliver(t.Context(), OfEnd([]string{"ann@example.org"}, 1, e)[0]); err != nil {
				t.Errorf("%s: %v", outcome, err)
			}
		}
	})
}
