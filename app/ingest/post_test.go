package ingest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/stagepost/stagepost/edge/mail"
)

// postOffice is a mail server of the test process. It keeps what it accepts.
type postOffice struct {
	addr  string
	users map[string]string // by name: passwords; nil requires no login
	pool  *x509.CertPool
	mu    sync.Mutex // guards the rest
	got   []parcel
	// is asked at each step of a dialogue; an error is the server's answer, errHangUp no answer at all
	step func(name, hello string) error
}

// parcel is a mail that the server accepted.
type parcel struct {
	hello string // name of the client
	to    []string
	raw   []byte
	head  netmail.Header
}

var errHangUp = errors.New("the server hangs up")

func openPost(t *testing.T) *postOffice { return openSafePost(t, mail.NoTLS, nil) }

// openSafePost speaks TLS in a mode, and requires the login of one of its users if it has any.
func openSafePost(t *testing.T, mode mail.TLSMode, users map[string]string) *postOffice {
	t.Helper()
	p := &postOffice{users: users}
	var config *tls.Config
	if mode != mail.NoTLS {
		s := httptest.NewTLSServer(nil) // lends its certificate for 127.0.0.1
		p.pool = x509.NewCertPool()
		p.pool.AddCert(s.Certificate())
		config = &tls.Config{Certificates: s.TLS.Certificates}
		s.Close()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	s := smtp.NewServer(p)
	s.Domain, s.TLSConfig = "localhost", config
	if mode == mail.ImplicitTLS {
		l = tls.NewListener(l, config)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return p
}

// sender gives a way to the post office under the name of a client.
func (p *postOffice) sender(t *testing.T, hello string) mail.Sender {
	t.Helper()
	s, err := mail.SMTP(mail.Options{Addr: p.addr, TLS: mail.NoTLS, Hello: hello, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (p *postOffice) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &counter{post: p, conn: c}, nil
}

// ask asks step what becomes of a step of the dialogue.
func (p *postOffice) ask(c *counter, name string) error {
	p.mu.Lock()
	step := p.step
	p.mu.Unlock()
	if step == nil {
		return nil
	}
	err := step(name, c.conn.Hostname())
	if errors.Is(err, errHangUp) {
		_ = c.conn.Conn().Close()
	}
	return err
}

func (p *postOffice) on(step func(name, hello string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = step
}

func (p *postOffice) all() []parcel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}

// counter serves one client.
type counter struct {
	post *postOffice
	conn *smtp.Conn
	to   []string
	user string // who logged in
}

func (c *counter) AuthMechanisms() []string { return []string{sasl.Plain} }

func (c *counter) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if want, ok := c.post.users[user]; !ok || want != password {
			return smtp.ErrAuthFailed
		}
		c.user = user
		return nil
	}), nil
}

func (c *counter) Reset()        { c.to = nil }
func (c *counter) Logout() error { return nil }

func (c *counter) Mail(string, *smtp.MailOptions) error {
	if c.post.users != nil && c.user == "" {
		return smtp.ErrAuthRequired
	}
	return c.post.ask(c, "mail")
}

func (c *counter) Rcpt(to string, _ *smtp.RcptOptions) error {
	if err := c.post.ask(c, "rcpt "+to); err != nil {
		return err
	}
	c.to = append(c.to, to)
	return nil
}

func (c *counter) Data(r io.Reader) error {
	if err := c.post.ask(c, "data"); err != nil {
		return err
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if err := c.post.ask(c, "read"); err != nil {
		return err
	}
	c.post.mu.Lock()
	c.post.got = append(c.post.got, parcel{hello: c.conn.Hostname(), to: c.to, raw: raw, head: m.Header})
	c.post.mu.Unlock()
	return c.post.ask(c, "accepted")
}

// id is the Message-ID without its brackets.
func (p *parcel) id() string { return strings.Trim(p.head.Get("Message-Id"), "<>") }

// parts reads a mail as a receiver would: text, HTML and the attachments by their names.
func parts(t *testing.T, raw []byte) (text, html string, attached map[string]string) {
	t.Helper()
	m, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	attached = map[string]string{}
	var walk func(kind, encoding, name string, body io.Reader)
	walk = func(kind, encoding, name string, body io.Reader) {
		media, params, err := mime.ParseMediaType(kind)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(media, "multipart/") {
			r := multipart.NewReader(body, params["boundary"])
			for {
				part, err := r.NextRawPart()
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				walk(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part.FileName(),
					part)
			}
		}
		switch strings.ToLower(encoding) {
		case "quoted-printable":
			body = quotedprintable.NewReader(body)
		case "base64":
			body = base64.NewDecoder(base64.StdEncoding, body)
		}
		content, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		got := string(content)
		switch {
		case name != "":
			attached[name] = got
		case media == "text/html":
			html = strings.ReplaceAll(got, "\r\n", "\n")
		default:
			text = strings.ReplaceAll(got, "\r\n", "\n")
		}
	}
	walk(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), "", m.Body)
	return text, html, attached
}
