package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"golang.org/x/sys/unix"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// mailbox is a mail server of the test, which requires TLS and a login.
type mailbox struct {
	password string
	mails    chan []byte
}

func (m *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &mailSession{m}, nil }

type mailSession struct{ *mailbox }

func (s *mailSession) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, _, password string) error {
		if password != s.password {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *mailSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s *mailSession) Reset()                               {}
func (s *mailSession) Logout() error                        { return nil }

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err == nil {
		s.mails <- text
	}
	return err
}

// start serves the mailbox, and gives its address and the file with its certificate.
func (m *mailbox) start(t *testing.T) (address, authority string) {
	t.Helper()
	borrowed := httptest.NewTLSServer(nil) // its certificate is for 127.0.0.1
	defer borrowed.Close()
	authority = filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: borrowed.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	s := smtp.NewServer(m)
	s.Domain, s.TLSConfig = "localhost", &tls.Config{Certificates: borrowed.TLS.Certificates}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return l.Addr().String(), authority
}

// addMail adds a mail with the contents of its parts.
func (s *searched) addMail(t *testing.T, text []byte) {
	t.Helper()
	s.add("mails", text)
	m, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s.addPart(t, textproto.MIMEHeader(m.Header), m.Body)
}

func (s *searched) addPart(t *testing.T, h textproto.MIMEHeader, body io.Reader) {
	t.Helper()
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(media, "multipart/") {
		for r := multipart.NewReader(body, params["boundary"]); ; {
			part, err := r.NextRawPart()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s.addPart(t, part.Header, part)
		}
	}
	switch strings.ToLower(h.Get("Content-Transfer-Encoding")) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	s.add("parts of mails", text)
}

// addChildren adds the environments and arguments of all processes below one, and gives their number.
func (s *searched) addChildren(t *testing.T, of int) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[string][]string{} // directories in /proc by parent
	for _, name := range all {
		text, err := os.ReadFile(name)
		if ended(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		after := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // state, parent, ...
		children[after[1]] = append(children[after[1]], filepath.Dir(name))
	}
	for next := children[strconv.Itoa(of)]; len(next) > 0; next = next[1:] {
		for _, file := range []string{"environ", "cmdline"} {
			text, err := os.ReadFile(filepath.Join(next[0], file))
			if err != nil && !ended(err) {
				t.Fatal(err)
			}
			s.add(map[string]string{"environ": "environments", "cmdline": "arguments of children"}[file], text)
		}
		n++
		next = append(next, children[filepath.Base(next[0])]...)
	}
	return n
}

// ended reports whether a process ended while it was read.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// errBegun ends the reading of an output.
var errBegun = errors.New("the command has begun")

// begun runs a script and a flow whose commands have an environment with a text, and returns when both are at work.
// stop ends them.
func begun(ctx context.Context, t *testing.T, api *client.Client, text string) (stop func()) {
	t.Helper()
	j, err := api.SubmitCompute(ctx, client.ComputeOrder{Service: "default", Env: map[string]string{"GIVEN": text},
		Command: &client.ComputeCommand{Words: []string{"sh", "-c", "echo begun; exec sleep 1000"}}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = api.FollowCompute(ctx, j.ID, client.Stdout, &client.ComputePlace{},
		func(*client.ComputeOutput) error { return errBegun })
	if !errors.Is(err, errBegun) {
		t.Fatalf("the script does not begin: %v", err)
	}
	dir := t.TempDir()
	for _, name := range []string{"begun", "end"} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := fmt.Sprintf("flow: waits\ninputs:\n  given: {required: true}\nlinear:\n  - task: wait\n"+
		"    requires: [given]\n    run: echo >%[1]s/begun; read x <%[1]s/end || true\n", dir)
	flow, err := api.SubmitFlow(ctx, client.FlowOrder{File: file,
		Inputs: map[string]json.RawMessage{"given": json.RawMessage(strconv.Quote(text))}})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(filepath.Join(dir, "begun"))
		opened <- err
	}()
	select {
	case err = <-opened:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		t.Fatalf("the command of the flow %s does not begin: %v", flow.ID, err)
	}
	return func() {
		if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
			t.Error(err)
		}
		if _, err := api.Do(ctx, j.ID, "cancel", client.Act{Note: "it was read"}); err != nil {
			t.Error(err)
		}
		for _, id := range []job.ID{flow.ID, j.ID} {
			if err := api.Watch(ctx, id, 0, func(client.Update) error { return nil }); err != nil {
				t.Error(err)
			}
		}
	}
}

// plantedProcess starts a server process that has a secret of each kind, also in its environment, and sends its mails
// to the mailbox.
func plantedProcess(t *testing.T, c *canaries, box *mailbox, log io.Writer) *victim {
	t.Helper()
	data, tokens := t.TempDir(), filepath.Join(t.TempDir(), "tokens")
	password := c.plant(t, "mail password")
	box.password = c.secrets["mail password"]
	address, authority := box.start(t)
	secret, err := token.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.secrets["token"] = secret.Reveal()
	if err := token.Add(tokens, token.Entry{Hash: secret.Hash(), Role: identity.Admin, Owner: "ada"}); err != nil {
		t.Fatal(err)
	}
	c.plantProfile(t, data)
	v := prepare(t, data, "--log-level", "debug", "--tokens", tokens, "--mail-smtp", address, "--mail-user", "ada",
		"--mail-password-file", password, "--proxy-user", "X-Remote-User", "--proxy-from", "192.0.2.0/24",
		"--proxy-secret-file", c.plant(t, "proxy secret"), "--roles", "operator=*;", "--compute-local", "1",
		"--compute-sandbox", "auto", "--flow-commands", "--flow-sandbox", "off")
	c.secrets["environment"] = "canary-" + rand.Text()
	v.Env = append(os.Environ(), "SSL_CERT_FILE="+authority, "AWS_SECRET_ACCESS_KEY="+c.secrets["environment"])
	v.Stderr = log
	v.begin(t)
	t.Cleanup(func() { _ = v.Process.Kill() }) // after a failure
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", v.Process.Pid))
	if err != nil || !bytes.Contains(own, []byte(c.secrets["environment"])) {
		t.Fatalf("the environment of the server has no secret: %v", err)
	}
	return v
}

// TestCanariesOfChildren: no secret that a server has, or that is in its environment, is in a mail that it sends, or in
// the environment or the arguments of a process that it starts: for a script in the sandbox, with the processes of the
// sandbox itself, and for a command of a flow outside. The control is what people write: the title of a submission is
// found in the mails, and a variable of the script and of the flow in the environments.
func TestCanariesOfChildren(t *testing.T) {
	all := &searched{texts: map[string]*bytes.Buffer{}}
	c := &canaries{dir: t.TempDir(), secrets: map[string]string{}}
	box := &mailbox{mails: make(chan []byte, 16)}
	v := plantedProcess(t, c, box, all)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // without the build of the program
	defer cancel()
	api, err := client.New(v.url, client.Options{Token: client.NewSecret(c.secrets["token"])})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	title, variable := "visible-"+rand.Text(), "visible-"+rand.Text()
	if _, err := api.Submit(ctx, client.Submission{Profile: "maps", Title: title, Notification: "ann@example.org",
		Filename: "map.txt", DigestType: "sha256", DigestValue: strings.Repeat("0", 64)},
		strings.NewReader("a map")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // that it arrived, and how it ended
		select {
		case text := <-box.mails:
			all.addMail(t, text)
		case <-ctx.Done():
			t.Fatal("a mail is missing")
		}
	}
	stop := begun(ctx, t, api, variable)
	if n := all.addChildren(t, v.Process.Pid); n < 3 { // the sandbox has a process of its own
		t.Errorf("the server has %d processes", n)
	}
	stop()
	v.signal(t, os.Interrupt)
	if err := v.Wait(); err != nil {
		t.Error(err)
	}
	for name, secret := range c.secrets {
		if where := all.with(secret); len(where) > 0 {
			t.Errorf("the %s is in: %s", name, strings.Join(where, ", "))
		}
	}
	for text, places := range map[string][]string{title: {"mails", "parts of mails"}, variable: {"environments"}} {
		for _, place := range places {
			if where := all.with(text); !slices.Contains(where, place) {
				t.Errorf("the control: what people wrote is not in the %s but in %q", place, where)
			}
		}
	}
	if n := bytes.Count(all.texts["environments"].Bytes(), []byte(variable)); n < 2 {
		t.Errorf("the control: %d environments have the variable, want the script's and the flow's", n)
	}
}
