package mail

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"
	"time"
)

func good() Message {
	return Message{
		From: "Stagepost <post@example.org>", To: []string{"ann@example.org", `"Lee, Bo" <bo@example.net>`},
		Bcc:     []string{"Admin <root@example.com>"},
		Subject: "Ingest: OK — bid-1 völlig fertig", MessageID: "bid-1.report@stagepost.example.org",
		Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Text: "\nSubmission ID: bid-1\nJob(s): \n\n\t:Number of pending job(s): 0\n.\n..dots\n" +
			strings.Repeat("long line ", 300) + "\nünï\n",
		Attachments: []Attachment{{Name: "failed.json",
			ContentType: "application/json", Data: []byte(`{"failedJobs":[]}`)},
			{Name: "ä b.bin", Data: []byte{0, 1, 255, '\r', '\n', '.'}}},
	}
}

// check parses a message as a receiver would, and compares it with what was to be sent.
func check(t *testing.T, raw []byte, want Message) mail.Header {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != want.Subject {
		t.Errorf("subject %q, %v, want %q", subject, err, want.Subject)
	}
	if got := m.Header.Get("Message-Id"); got != "<"+want.MessageID+">" {
		t.Errorf("message id %q", got)
	}
	if date, err := m.Header.Date(); err != nil || !date.Equal(want.Date) {
		t.Errorf("date %v, %v", date, err)
	}
	to, err := m.Header.AddressList("To")
	if err != nil || len(to) != len(want.To) {
		t.Errorf("to %v, %v", to, err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" {
		t.Fatalf("content type %q, %v", kind, err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	var got []string
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.ReplaceAll(string(data), "\r\n", "\n"))
	}
	if len(got) != 1+len(want.Attachments) || got[0] != want.Text {
		t.Errorf("parts %.200q, want the text %.100q", got, want.Text)
	}
	return m.Header
}

// injections are put into every field that reaches a header or a command.
var injections = []string{
	"\r\nBcc: evil@example.org", "\nBcc: evil@example.org", "\rBcc: evil@example.org", "\r\n\r\nbody", "\n\nbody",
	"\r\n.\r\n", "\x00", "\x00\r\n",
	"%0d%0a\r\nX: y", "\u2028X: y", "\u2029X: y", "\u0085X: y", "\x0bX: y", "\x0cX: y", "\x1b[2J", "\x7f", "\u202etxt",
	"\xff", "\xc4\x8d\xc4\x8a\r\n", "\r\n X: y", "\t\r\n\tX: y", "a\r\nRCPT TO:<evil@example.org>", "\r\nDATA\r\n",
	"\n.\nMAIL FROM:<x>",
}

func TestInjectionsAreRefused(t *testing.T) {
	fields := map[string]func(m *Message, s string){
		"from":        func(m *Message, s string) { m.From = "a" + s + "@example.org" },
		"from, end":   func(m *Message, s string) { m.From += s },
		"from, name":  func(m *Message, s string) { m.From = `"Ann` + s + `" <ann@example.org>` },
		"to":          func(m *Message, s string) { m.To = []string{"ann@example.org" + s} },
		"to, front":   func(m *Message, s string) { m.To = []string{s + "ann@example.org"} },
		"to, name":    func(m *Message, s string) { m.To[0] = "Ann" + s + " <ann@example.org>" },
		"bcc":         func(m *Message, s string) { m.Bcc = []string{"ann@example.org" + s} },
		"cc":          func(m *Message, s string) { m.Cc = []string{"ann@example.org" + s} },
		"reply to":    func(m *Message, s string) { m.ReplyTo = "a" + s + "@example.org" },
		"in reply to": func(m *Message, s string) { m.InReplyTo = "a" + s + "@example.org" },
		"references": func(m *Message,
			s string) {
			m.References = []string{"a@example.org", "b" + s + "@example.org"}
		},
		"subject":           func(m *Message, s string) { m.Subject = "Report for " + s },
		"subject, middle":   func(m *Message, s string) { m.Subject = "Report" + s + " for" },
		"message id":        func(m *Message, s string) { m.MessageID = "a" + s + "@example.org" },
		"attachment":        func(m *Message, s string) { m.Attachments[0].Name = "a" + s + ".txt" },
		"attachment's type": func(m *Message, s string) { m.Attachments[0].ContentType = "text/plain" + s },
	}
	count := 0
	for field, set := range fields {
		for _, s := range injections {
			m := good()
			if set(&m, s); m.Validate() == nil {
				t.Errorf("%s with %q passes", field, s)
			}
			count++
		}
		m := good()
		set(&m, "")
		if field != "attachment's type" && m.Validate() != nil {
			t.Errorf("control %s: %v", field, m.Validate())
		}
	}
	t.Logf("%d injections", count)
}

func TestValidate(t *testing.T) {
	m := good()
	if err := m.Validate(); err != nil {
		t.Fatalf("control: %v", err)
	}
	for name, spoil := range map[string]func(m *Message){
		"no from":           func(m *Message) { m.From = "" },
		"from is a list":    func(m *Message) { m.From = "a@example.org, b@example.org" },
		"no recipients":     func(m *Message) { m.To, m.Bcc = nil, nil },
		"many references":   func(m *Message) { m.References = make([]string, 51) },
		"group":             func(m *Message) { m.To = []string{"team: a@example.org;"} },
		"empty recipient":   func(m *Message) { m.To = []string{""} },
		"many":              func(m *Message) { m.To = make([]string, 101) },
		"quoted local part": func(m *Message) { m.To = []string{`"a b"@example.org`} },
		"option":            func(m *Message) { m.To = []string{"-oQ/tmp@example.org"} },
		"no at":             func(m *Message) { m.To = []string{"ann"} },
		"not ASCII":         func(m *Message) { m.To = []string{"änn@example.org"} },
		"address literal":   func(m *Message) { m.To = []string{"ann@[127.0.0.1]"} },
		"long local part":   func(m *Message) { m.To = []string{strings.Repeat("a", 65) + "@example.org"} },
		"long subject":      func(m *Message) { m.Subject = strings.Repeat("a", 901) },
		"id in brackets":    func(m *Message) { m.MessageID = "<a@b>" },
		"no id":             func(m *Message) { m.MessageID = "" },
		"id without at":     func(m *Message) { m.MessageID = "a" },
		"id with two":       func(m *Message) { m.MessageID = "a@b@c" },
		"no date":           func(m *Message) { m.Date = time.Time{} }, "no text": func(m *Message) { m.Text = "" },
		"NUL":              func(m *Message) { m.Text = "a\x00" },
		"too large":        func(m *Message) { m.Attachments[0].Data = make([]byte, MaxBytes) },
		"attachment path":  func(m *Message) { m.Attachments[0].Name = "../a" },
		"attachment quote": func(m *Message) { m.Attachments[0].Name = `a"; filename="b.exe` },
		"attachment dots":  func(m *Message) { m.Attachments[0].Name = ".." },
		"no type":          func(m *Message) { m.Attachments[0].ContentType = "text" },
		"type with a name": func(m *Message) { m.Attachments[0].ContentType = `text/plain; name="x.exe"` },
	} {
		m := good()
		if spoil(&m); m.Validate() == nil {
			t.Errorf("%s passes", name)
		}
	}
	bad := Message{}
	if err := bad.Validate(); strings.Count(err.Error(), "\n") < 4 {
		t.Errorf("error %q, want all mistakes at once", err)
	}
}

func TestSecretShowsItselfNowhere(t *testing.T) {
	s := Secret("hunter2")
	data, err := json.Marshal(struct{ Password Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(s),
		fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s,
			s), fmt.Sprintf("%+v %#v", Options{Password: s}, Options{Password: s}), string(data),
		s.LogValue().String()} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e") || !strings.Contains(text, "***") {
			t.Errorf("secret shows in %q", text)
		}
	}
}

func FuzzValidate(f *testing.F) {
	for _, s := range injections {
		f.Add("Ann <ann@example.org>"+s, "subject"+s, "a@b"+s, "name"+s)
	}
	f.Add("Ann <ann@example.org>", "subject", "a@b", "name")
	f.Fuzz(func(t *testing.T, addr, subject, id, name string) {
		m := good()
		m.From, m.Subject, m.MessageID, m.Attachments[0].Name = addr, subject, id, name
		if m.Validate() != nil {
			return
		}
		msg, err := m.compose()
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		var b bytes.Buffer
		if _, err := msg.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		header := check(t, b.Bytes(), m)
		for key := range header {
			switch key {
			case "From", "To", "Subject", "Message-Id", "Date", "Content-Type", "Mime-Version", "Auto-Submitted":
			default:
				t.Fatalf("header %q came from %+v", key, m)
			}
		}
	})
}
