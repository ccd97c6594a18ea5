// Package mail sends the messages of reports, certificates and alarms: over SMTP, or as files into a directory.
//
// Parts of a message are untrusted (names of people, collections and files), so every message must pass Validate: a
// line break in a header would allow additional headers. Delivery is at least once: an answer can be lost after the
// server accepted the message. Then the same Message-ID is sent again, by which receivers detect the duplicate.
//
// Source: RFC 5321, RFC 5322.
package mail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"
)

// Sender delivers messages. Send validates m first and returns an *Error; it may be called again with the same message.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Message is one e-mail. Addresses are as RFC 5322 writes them: "ann@example.org" or "Ann Lee <ann@example.org>".
type Message struct {
	From string
	To   []string // the main receivers
	Cc   []string // receivers of a copy
	Bcc  []string // receivers that are hidden from the others
	// ReplyTo is where answers go. Empty: to From.
	ReplyTo string
	// Subject is one line.
	Subject string
	// MessageID identifies the message globally, without angle brackets: "job-7.completed@stagepost.example.org".
	// Each attempt for the same message must have the same one.
	MessageID string
	// InReplyTo and References are ids like MessageID of related earlier messages: mail readers show them in one
	// thread.
	InReplyTo  string
	References []string
	Date       time.Time
	Text       string
	HTML       string // optional second form of Text; untrusted parts must be escaped
	// Attachments are held in memory; all of them and the bodies together must not exceed MaxBytes.
	Attachments []Attachment
}

// Attachment is one attached file.
type Attachment struct {
	Name        string
	ContentType string // defaults to application/octet-stream
	Data        []byte
}

// Limits of a message.
const (
	MaxBytes      = 25 << 20
	MaxRecipients = 100
	maxSubject    = 900 // RFC 5322 section 2.1.1 allows 998 with the header's name
	maxMessageID  = 200
	maxReferences = 50
)

// Validate returns all mistakes of a message, or nil. It refuses instead of repairing.
func (m *Message) Validate() error {
	var errs []error
	add := func(field string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		}
	}
	m.validateAddresses(add)
	add("subject", line(m.Subject, maxSubject))
	add("message id", messageID(m.MessageID))
	if m.InReplyTo != "" {
		add("in reply to", messageID(m.InReplyTo))
	}
	if len(m.References) > maxReferences {
		add("references", fmt.Errorf("%d ids, must be at most %d", len(m.References), maxReferences))
	}
	for _, id := range m.References {
		add("references", messageID(id))
	}
	if year := m.Date.Year(); year < 1970 || year > 9999 {
		add("date", fmt.Errorf("year %d", year))
	}
	if m.Text == "" && m.HTML == "" {
		add("text", errors.New("is empty"))
	}
	size := len(m.Text) + len(m.HTML)
	for _, body := range []string{m.Text, m.HTML} {
		if !utf8.ValidString(body) || strings.ContainsRune(body, 0) {
			add("text", errors.New("is not UTF-8, or contains NUL"))
		}
	}
	for _, a := range m.Attachments {
		size += len(a.Data)
		add("attachment", a.validate())
	}
	if size > MaxBytes {
		add("size", fmt.Errorf("%d bytes, must be at most %d", size, MaxBytes))
	}
	return errors.Join(errs...)
}

func (m *Message) validateAddresses(add func(string, error)) {
	_, err := address(m.From)
	add("from", err)
	for _, list := range []struct {
		field string
		addrs []string
	}{{"to", m.To}, {"cc", m.Cc}, {"bcc", m.Bcc}} {
		for _, a := range list.addrs {
			_, err := address(a)
			add(list.field, err)
		}
	}
	if m.ReplyTo != "" {
		_, err := address(m.ReplyTo)
		add("reply to", err)
	}
	if n := len(m.To) + len(m.Cc) + len(m.Bcc); n == 0 || n > MaxRecipients {
		add("to", fmt.Errorf("%d recipients, must be 1 to %d", n, MaxRecipients))
	}
}

// CheckAddress returns why a message could not be sent to an address, such as "ann@example.org" or "Ann Lee
// <ann@example.org>", or nil. Callers check addresses that they store: [Message.Validate] accepts what it accepts.
func CheckAddress(s string) error {
	_, err := address(s)
	return err
}

func (a *Attachment) validate() error {
	if err := line(a.Name, 255); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if a.Name == "" || strings.ContainsAny(a.Name, `/\"`) || strings.Trim(a.Name, ". ") == "" {
		return fmt.Errorf("name %q: must be a file name without slash, backslash and quote", a.Name)
	}
	if a.ContentType == "" {
		return nil
	}
	if err := line(a.ContentType, 255); err != nil {
		return fmt.Errorf("content type: %w", err)
	}
	_, params, err := mime.ParseMediaType(a.ContentType)
	if err == nil && (params["name"] != "" || !strings.Contains(a.ContentType, "/")) {
		err = errors.New("must be type/subtype without a name")
	}
	if err != nil {
		return fmt.Errorf("content type %q: %w", a.ContentType, err)
	}
	return nil
}

// address parses one address. The part in angle brackets must be plain ASCII without quotes and spaces, since it
// becomes a word of an SMTP command.
func address(s string) (*mail.Address, error) {
	if err := line(s, 500); err != nil {
		return nil, err
	}
	a, err := mail.ParseAddress(s)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", s, err)
	}
	if strings.Count(s, ";") != strings.Count(a.Name, ";") {
		return nil, fmt.Errorf("address %q: is a group", s)
	}
	if err := line(a.Name, 200); err != nil {
		return nil, fmt.Errorf("address %q: %w", s, err)
	}
	for _, c := range []byte(a.Address) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("<>\"(),:;\\[]", c) >= 0 {
			return nil, fmt.Errorf("address %q: character %q is not allowed", s, c)
		}
	}
	local, domain, _ := strings.Cut(a.Address, "@")
	if len(local) > 64 || len(domain) > 253 || strings.HasPrefix(local, "-") {
		return nil, fmt.Errorf("address %q: too long, or begins with a hyphen", s)
	}
	return a, nil
}

// line refuses characters that could end a header or hide in it.
func line(s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("%d bytes, must be at most %d", len(s), most)
	}
	if !utf8.ValidString(s) {
		return errors.New("is not UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || unicode.Is(unicode.Bidi_Control, r) {
			return fmt.Errorf("character %U is not allowed in a header", r)
		}
	}
	return nil
}

func messageID(s string) error {
	left, right, ok := strings.Cut(s, "@")
	if !ok || left == "" || right == "" || len(s) > maxMessageID {
		return fmt.Errorf("%.40q must be left@right of at most %d bytes", s, maxMessageID)
	}
	for _, c := range []byte(left + right) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-/=?^_`{|}~.", c) < 0 {
			return fmt.Errorf("character %q is not allowed", c)
		}
	}
	return nil
}

// compose returns the message in its transmitted form. It must have been validated.
func (m *Message) compose() (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	from, err := address(m.From)
	if err != nil {
		return nil, err
	}
	msg.FromMailAddress(from)
	to, err := addresses(m.To)
	if err != nil {
		return nil, err
	}
	cc, err := addresses(m.Cc)
	if err != nil {
		return nil, err
	}
	bcc, err := addresses(m.Bcc)
	if err != nil {
		return nil, err
	}
	msg.ToMailAddress(to...)
	msg.CcMailAddress(cc...)
	msg.BccMailAddress(bcc...)
	if m.ReplyTo != "" {
		to, err := address(m.ReplyTo)
		if err != nil {
			return nil, err
		}
		msg.ReplyToMailAddress(to)
	}
	msg.Subject(m.Subject)
	msg.SetMessageIDWithValue(m.MessageID)
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no automatic absence notice
	if m.InReplyTo != "" {
		msg.SetGenHeaderPreformatted(gomail.HeaderInReplyTo, "<"+m.InReplyTo+">")
	}
	if len(m.References) > 0 {
		msg.SetGenHeaderPreformatted(gomail.HeaderReferences, "<"+strings.Join(m.References, ">\r\n <")+">")
	}
	msg.SetDateWithValue(m.Date)
	switch {
	case m.Text == "":
		msg.SetBodyString(gomail.TypeTextHTML, m.HTML)
	default:
		msg.SetBodyString(gomail.TypeTextPlain, m.Text)
		if m.HTML != "" {
			msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
		}
	}
	for _, a := range m.Attachments {
		kind := a.ContentType
		if kind == "" {
			kind = "application/octet-stream"
		}
		if err := msg.AttachReader(a.Name, bytes.NewReader(a.Data),
			gomail.WithFileContentType(gomail.ContentType(kind))); err != nil {
			return nil, err
		}
	}
	return msg, nil
}

func addresses(list []string) ([]*mail.Address, error) {
	var out []*mail.Address
	for _, s := range list {
		a, err := address(s)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}
