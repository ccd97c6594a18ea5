package host

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/mail"
)

// TestMailWithoutServer: without a mail server, mails are files of their user in the data directory, which has no
// directory for them before the first one.
func TestMailWithoutServer(t *testing.T) {
	data := t.TempDir()
	s := mailSettings{MailHost: "example.org", MailLink: "https://archive.example.org/"}
	m, err := s.mail(data, slog.New(slog.DiscardHandler))
	if err != nil || m.From != "stagepost@example.org" || m.Link != "https://archive.example.org" {
		t.Fatalf("%+v, %v", m, err)
	}
	dir := filepath.Join(data, MailDir)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before the first mail: %v", err)
	}
	one := mail.Message{From: m.From, To: []string{"ann@example.org"}, MessageID: "1@example.org", Text: "text",
		Date: time.Unix(1, 0)}
	for range 2 { // a repetition changes nothing
		if err := m.Sender.Send(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.eml"))
	if err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var e *mail.Error
	if err := m.Sender.Send(t.Context(), one); !errors.As(err, &e) || !e.Temp {
		t.Errorf("no directory can be made: %v", err)
	}
}

// TestMailSettings: mistakes name their setting. The control has none.
func TestMailSettings(t *testing.T) {
	for _, c := range []struct {
		s    mailSettings
		want string
	}{
		{mailSettings{MailHost: "localhost", MailSMTP: "localhost:25", MailTLS: "none"}, ""},
		{mailSettings{MailHost: "localhost", MailFrom: "nobody"}, "mail.from"},
		{mailSettings{MailHost: "local host"}, "mail.host"},
		{mailSettings{MailHost: "localhost", MailLink: "archive.example.org"}, "mail.link"},
		{mailSettings{MailHost: "localhost", MailSMTP: "localhost"}, "mail.smtp"},
		{mailSettings{MailHost: "localhost", MailSMTP: "localhost:25", MailUser: "x"}, "mail.password_file"},
	} {
		_, err := c.s.mail(t.TempDir(), slog.New(slog.DiscardHandler))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
}
