package mail

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// picky is a server that refuses some receivers.
type picky struct {
	server
	codes map[string]int
}

func (p *picky) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &pickySession{session{&p.server}, p}, nil
}

type pickySession struct {
	session
	picky *picky
}

func (s *pickySession) Rcpt(to string, o *smtp.RcptOptions) error {
	if code := s.picky.codes[to]; code != 0 {
		return &smtp.SMTPError{Code: code, Message: "not " + to}
	}
	return s.session.Rcpt(to, o)
}

func (p *picky) serve(t *testing.T) string {
	t.Helper()
	srv := smtp.NewServer(p)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return l.Addr().String()
}

// TestRefusedReceivers: one invalid address does not keep a message from the others, unless no main receiver is left.
func TestRefusedReceivers(t *testing.T) {
	for name, c := range map[string]struct {
		codes map[string]int
		want  string // receivers of what the server took, or "temporary" or "permanent"
	}{
		"nobody": {nil, "ann@example.org bo@example.net desk@example.org root@example.com"},
		"the blind copy": {map[string]int{"root@example.com": 550},
			"ann@example.org bo@example.net desk@example.org"},
		"one of two": {map[string]int{"ann@example.org": 550, "desk@example.org": 553},
			"bo@example.net root@example.com"},
		"those it is for":      {map[string]int{"ann@example.org": 550, "bo@example.net": 550}, "permanent"},
		"one for now":          {map[string]int{"desk@example.org": 450}, "temporary"},
		"one for now, one not": {map[string]int{"ann@example.org": 450, "root@example.com": 550}, "temporary"},
		"all": {map[string]int{"ann@example.org": 550, "bo@example.net": 550, "desk@example.org": 550,
			"root@example.com": 550}, "permanent"},
		"one, the last for now": {map[string]int{"ann@example.org": 550, "root@example.com": 450}, "temporary"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &picky{codes: c.codes}
			var log bytes.Buffer
			m := good()
			m.Cc = []string{"Desk <desk@example.org>"}
			err := send(t, Options{Addr: p.serve(t), TLS: NoTLS, Log: slog.New(slog.NewTextHandler(&log, nil))}, m)
			got := ""
			switch {
			case err != nil && err.Temporary():
				got = "temporary"
			case err != nil:
				got = "permanent"
			default:
				got = strings.Join(p.to, " ")
			}
			if got != c.want || (err == nil) != (len(p.messages) == 1) {
				t.Errorf("got %q with %d messages (%v), want %q", got, len(p.messages), err, c.want)
			}
			if err == nil {
				for address := range c.codes {
					if !strings.Contains(log.String(), address) || strings.Contains(string(p.messages[0]), address) {
						t.Errorf("%s is not logged, or is in the message: %s", address, log.String())
					}
				}
			}
		})
	}
}

// TestNoPasswordWithoutTLS: a server that offers the login but no TLS gets neither password nor message.
func TestNoPasswordWithoutTLS(t *testing.T) {
	config, pool := certificate(t)
	users := map[string]string{"ann": "hunter2"}
	open := &server{users: users}
	addr := open.start(t, nil, false)
	for name, o := range map[string]Options{
		"STARTTLS": {Addr: addr, RootCAs: pool, User: "ann", Password: "hunter2"},
		"TLS":      {Addr: addr, TLS: ImplicitTLS, RootCAs: pool, User: "ann", Password: "hunter2"},
	} {
		if err := send(t, o, good()); err == nil || err.Temporary() {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := SMTP(Options{Addr: addr, TLS: NoTLS, User: "ann", Password: "hunter2"}); err == nil {
		t.Error("a password without TLS can be configured")
	}
	if open.asked > 0 || len(open.messages) > 0 {
		t.Errorf("%d logins were begun, %d messages arrived", open.asked, len(open.messages))
	}
	secure := &server{users: users}
	if err := send(t, Options{Addr: secure.start(t, config, false), RootCAs: pool, User: "ann", Password: "hunter2"},
		good()); err != nil || secure.logins != 1 {
		t.Errorf("control: %v, %d logins", err, secure.logins)
	}
	deaf := &server{} // offers no login
	if err := send(t, Options{Addr: deaf.start(t, config, false), RootCAs: pool, User: "ann", Password: "hunter2"},
		good()); err == nil || len(deaf.messages) > 0 {
		t.Errorf("without a login: got %v, %d messages", err, len(deaf.messages))
	}
}

// TestCertificates: a certificate of another host, or of an unknown authority, ends the session before any command.
func TestCertificates(t *testing.T) {
	config, pool := certificate(t)
	for _, implicit := range []bool{false, true} {
		s := &server{}
		addr := s.start(t, config, implicit)
		mode := map[bool]TLSMode{false: StartTLS, true: ImplicitTLS}[implicit]
		for name, o := range map[string]Options{
			"unknown authority": {Addr: addr, TLS: mode},
			"another host":      {Addr: strings.Replace(addr, "127.0.0.1", "localhost", 1), TLS: mode, RootCAs: pool},
		} {
			if err := send(t, o, good()); err == nil || len(s.messages) > 0 {
				t.Errorf("%s, %s: got %v", mode, name, err)
			}
		}
		if err := send(t, Options{Addr: addr, TLS: mode, RootCAs: pool}, good()); err != nil {
			t.Errorf("control, %s: %v", mode, err)
		}
	}
}

func TestThreadHeaders(t *testing.T) {
	m := good()
	m.InReplyTo, m.References, m.Cc = "b@example.org", []string{"a@example.org", "b@example.org"},
		[]string{"Desk <desk@example.org>"}
	m.ReplyTo = "Help <help@example.org>"
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	msg, err := m.compose()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	h := check(t, b.Bytes(), m)
	for name, want := range map[string]string{
		"In-Reply-To": "<b@example.org>",
		"References":  "<a@example.org> <b@example.org>", "Cc": `"Desk" <desk@example.org>`,
		"Auto-Submitted": "auto-generated", "Reply-To": `"Help" <help@example.org>`,
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for _, s := range []string{"", "ann", "a@b\r\nBcc: c@d", "team: a@example.org;", `"a b"@example.org`,
		"a@[127.0.0.1]", "-o@example.org", "a@b, c@d"} {
		if CheckAddress(s) == nil {
			t.Errorf("%q passes", s)
		}
	}
	for _, s := range []string{"ann@example.org", "Ann Lee <ann@example.org>"} {
		if err := CheckAddress(s); err != nil {
			t.Errorf("control: %v", err)
		}
	}
}

// TestMessageForBlindCopiesAlone is one that only administrators get.
func TestMessageForBlindCopiesAlone(t *testing.T) {
	s := &server{}
	m := good()
	m.To = nil
	sender, err := SMTP(Options{Addr: s.start(t, nil, false), TLS: NoTLS, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(context.Background(), m); err != nil || len(s.messages) != 1 ||
		strings.Contains(string(s.messages[0]), "root@") {
		t.Errorf("got %v, %d messages", err, len(s.messages))
	}
}
