package mail

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// server is a mail server of the test process.
type server struct {
	mu       sync.Mutex
	users    map[string]string
	refuse   map[string]*smtp.SMTPError // by stage: mail, rcpt, data
	from     string
	to       []string
	messages [][]byte
	logins   int
	asked    int // for a login, right or wrong
}

func (s *server) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{s}, nil }

type session struct{ *server }

func (s *session) AuthMechanisms() []string {
	if s.users == nil {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	return sasl.NewPlainServer(func(_, user, password string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if want, ok := s.users[user]; !ok || want != password {
			return smtp.ErrAuthFailed
		}
		s.logins++
		return nil
	}), nil
}

func (s *session) stage(name string) error {
	if err := s.refuse[name]; err != nil {
		return err
	}
	return nil
}

func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.to = from, nil
	return s.stage("mail")
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = append(s.to, to)
	return s.stage("rcpt")
}

func (s *session) Data(r io.Reader) error {
	data, err := io.ReadAll(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.stage("data"); err != nil {
		return err
	}
	s.messages = append(s.messages, data)
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// start serves s and gives its address. With certificate it offers STARTTLS, or speaks TLS at once.
func (s *server) start(t *testing.T, config *tls.Config, implicit bool) string {
	t.Helper()
	srv := smtp.NewServer(s)
	srv.Domain = "localhost"
	srv.TLSConfig = config
	srv.AllowInsecureAuth = config == nil // without TLS it offers the login to every client
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if implicit {
		l = tls.NewListener(l, config)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return addr
}

// certificate borrows the one that httptest makes for 127.0.0.1.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, pool
}

func send(t *testing.T, o Options, m Message) *Error {
	t.Helper()
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	sender, err := SMTP(o)
	if err != nil {
		t.Fatal(err)
	}
	err = sender.Send(context.Background(), m)
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is no *Error", err)
	}
	return e
}

func TestSMTP(t *testing.T) {
	config, pool := certificate(t)
	users := map[string]string{"ann": "hunter2"}
	for _, c := range []struct {
		name     string
		server   *server
		tls      bool
		implicit bool
		options  Options
		logins   int
	}{
		{"no TLS, no login", &server{}, false, false, Options{TLS: NoTLS}, 0},
		{"STARTTLS, no login", &server{}, true, false, Options{RootCAs: pool}, 0},
		{"STARTTLS, login", &server{users: users}, true, false,
			Options{RootCAs: pool, User: "ann", Password: "hunter2"}, 1},
		{"TLS, login", &server{users: users}, true, true,
			Options{TLS: ImplicitTLS, RootCAs: pool, User: "ann", Password: "hunter2"}, 1},
		{"TLS, no login", &server{}, true, true,
			Options{TLS: ImplicitTLS, RootCAs: pool, Hello: "stagepost.example.org"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var serverTLS *tls.Config
			if c.tls {
				serverTLS = config
			}
			c.options.Addr = c.server.start(t, serverTLS, c.implicit)
			m := good()
			if err := send(t, c.options, m); err != nil {
				t.Fatal(err)
			}
			if err := send(t, c.options, m); err != nil {
				t.Fatal(err)
			}
			c.server.mu.Lock()
			defer c.server.mu.Unlock()
			if len(c.server.messages) != 2 || c.server.logins != 2*c.logins {
				t.Fatalf("%d messages, %d logins", len(c.server.messages), c.server.logins)
			}
			if got := check(t, c.server.messages[0], m); got.Get("Bcc") != "" ||
				strings.Contains(string(c.server.messages[0]), "root@example.com") {
				t.Error("the blind copy shows")
			}
			if got, want := c.server.from+" "+
				strings.Join(c.server.to, " "),
				"post@example.org ann@example.org bo@example.net root@example.com"; got != want {
				t.Errorf("envelope %q, want %q", got, want)
			}
		})
	}
}

func TestSMTPRefusals(t *testing.T) {
	reply := func(code int) *smtp.SMTPError { return &smtp.SMTPError{Code: code, Message: "no"} }
	for _, stage := range []string{"mail", "rcpt", "data"} {
		for _, code := range []int{421, 450, 451, 452, 550, 552, 554} {
			s := &server{refuse: map[string]*smtp.SMTPError{stage: reply(code)}}
			err := send(t, Options{Addr: s.start(t, nil, false), TLS: NoTLS}, good())
			if err == nil || err.Code != code || err.Temporary() != (code < 500) {
				t.Errorf("%d at %s: %v (code %d)", code, stage, err, err.Code)
			}
		}
	}
}

func TestSMTPTLSAndLoginFailures(t *testing.T) {
	config, pool := certificate(t)
	users := map[string]string{"ann": "hunter2"}
	plain, secure := (&server{users: users}).start(t, nil, false), (&server{users: users}).start(t, config, false)
	for name, c := range map[string]struct {
		options Options
		temp    bool
	}{
		"no STARTTLS":       {Options{Addr: plain}, false},
		"unknown authority": {Options{Addr: secure}, false},
		"wrong name": {Options{Addr: strings.Replace(secure, "127.0.0.1", "localhost", 1), RootCAs: pool},
			false},
		"wrong password":        {Options{Addr: secure, RootCAs: pool, User: "ann", Password: "x"}, false},
		"connection refused":    {Options{Addr: "127.0.0.1:1", TLS: NoTLS}, true},
		"TLS to a plain server": {Options{Addr: plain, TLS: ImplicitTLS, RootCAs: pool}, false},
	} {
		err := send(t, c.options, good())
		if err == nil || err.Temporary() != c.temp || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v (temporary %v)", name, err, err != nil && err.Temporary())
		}
	}
	bad := good()
	bad.To = []string{"a@b\r\nRCPT TO:<c@d>"}
	if err := send(t, Options{Addr: plain, TLS: NoTLS}, bad); err == nil || err.Temporary() {
		t.Errorf("bad message: %v", err)
	}
}

// script is a server that answers each line with a fixed one, and disconnects after the last.
func script(t *testing.T, lines ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for i, line := range lines {
			if line == "BODY" {
				for s := ""; s != ".\r\n"; {
					if s, err = in.ReadString('\n'); err != nil {
						return
					}
				}
				continue
			}
			if line == "SILENCE" {
				io.Copy(io.Discard, in)
				return
			}
			if i > 0 && lines[i-1] != "BODY" {
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
			}
			fmt.Fprintf(conn, "%s\r\n", line)
		}
	}()
	return l.Addr().String()
}

func TestSMTPBrokenServers(t *testing.T) {
	one := good()
	one.To, one.Bcc = one.To[:1], nil
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"cut before the greeting": {nil, "temporary"},
		"busy":                    {[]string{"421 busy"}, "temporary"},
		"no service":              {[]string{"554 no service"}, "permanent"},
		"cut after DATA":          {[]string{"220 hi", "250 hi", "250 ok", "250 ok", "354 go"}, "temporary"},
		"cut after the body": {[]string{"220 hi", "250 hi", "250 ok", "250 ok", "354 go", "BODY"},
			"temporary"},
		"taken, then cut": {[]string{"220 hi", "250 hi", "250 ok", "250 ok", "354 go", "BODY",
			"250 taken"}, "sent"},
		"taken, then an error to RSET": {[]string{"220 hi", "250 hi", "250 ok", "250 ok", "354 go", "BODY", "250 taken",
			"500 what"}, "sent"},
		"taken": {[]string{"220 hi", "250 hi", "250 ok", "250 ok", "354 go", "BODY", "250 taken",
			"250 ok", "221 bye"}, "sent"},
		"body refused for now": {[]string{"220 hi", "250 hi", "250 ok", "250 ok", "354 go", "BODY",
			"451 later"}, "temporary"},
		"body refused": {[]string{"220 hi", "250 hi", "250 ok", "250 ok", "354 go", "BODY", "554 spam"},
			"permanent"},
	} {
		err := send(t, Options{Addr: script(t, c.lines...), TLS: NoTLS, Hello: "x"}, one)
		got := "sent"
		if err != nil {
			got = map[bool]string{true: "temporary", false: "permanent"}[err.Temporary()]
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, c.want)
		}
	}
}

func TestSMTPSilence(t *testing.T) {
	err := send(t, Options{Addr: script(t, "220 hi", "250 hi", "SILENCE"), TLS: NoTLS, Timeout: 200 * time.Millisecond},
		good())
	if err == nil || !err.Temporary() {
		t.Errorf("silence: %v, want a temporary error", err)
	}
	sender, bad := SMTP(Options{Addr: script(t, "220 hi", "250 hi", "SILENCE"), TLS: NoTLS, Timeout: time.Hour})
	if bad != nil {
		t.Fatal(bad)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := sender.Send(ctx, good()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v, want the context's error", err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{}, {Addr: "host"}, {Addr: ":25"}, {Addr: "host:0"}, {Addr: "host:x"}, {Addr: "h:25", TLS: "maybe"},
		{Addr: "h:25", User: "a"},
		{Addr: "h:25", Password: "a"}, {Addr: "h:25", TLS: NoTLS, User: "a", Password: "b"},
		{Addr: "h:25", Hello: "a\r\nb"},
	} {
		if _, err := SMTP(o); err == nil {
			t.Errorf("%+v passes", o)
		}
	}
	if _, err := SMTP(Options{Addr: "h:587", User: "a", Password: "b"}); err != nil {
		t.Errorf("control: %v", err)
	}
}
