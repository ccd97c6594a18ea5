package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// MailTopic is that of mails in the outbox.
const MailTopic = "archive.mail"

// MostReceivers bounds the addresses of one job.
const MostReceivers = 20

// Mail is how mails are sent.
type Mail struct {
	Sender mail.Sender
	From   string // such as "stagepost@example.org"
	Host   string // the part of Message-IDs after the @
	Link   string // URL of the server for commands in mails; empty: they name none
}

// End is what a mail states about the end of a job, or about its deletion.
type End struct {
	Job     job.ID            `json:"job"`
	Number  int64             `json:"number"` // of the job
	Source  string            `json:"source"`
	Course  string            `json:"course"`         // its id
	Name    string            `json:"name,omitempty"` // of the course; empty: the source was not read
	Before  lifecycle.State   `json:"before"`         // the state before
	State   lifecycle.State   `json:"state"`
	Outcome lifecycle.Outcome `json:"outcome,omitempty"` // of the job; empty after a deletion
	Stored  bool              `json:"stored,omitempty"`  // copies were kept
	At      time.Time         `json:"at"`

	Cause    string    `json:"cause,omitempty"`
	Message  string    `json:"message,omitempty"` // why it failed, was cancelled or deleted
	Archived int       `json:"archived,omitempty"`
	Skipped  int       `json:"skipped,omitempty"`  // activities that are not in the archive
	Warnings int       `json:"warnings,omitempty"` // number
	Package  string    `json:"package,omitempty"`  // its name
	Bytes    int64     `json:"bytes,omitempty"`    // of the package
	Retain   time.Time `json:"retain,omitzero"`    // zero: it is kept indefinitely
	Signed   time.Time `json:"signed,omitzero"`    // by the time-stamp authority; zero: it is not
}

// letter is a mail in the outbox. Its text is made when it is delivered.
type letter struct {
	To string `json:"to"`
	End
}

// OfEnd gives the mails about the end of a job, one for each receiver: a receiver that the mail server refuses, or that
// is to be tried later, does not concern the others. number is that of the history entry of the transition, so that
// one that is tried again after a crash is mailed once.
func OfEnd(to []string, number int64, e End) (all []job.Message) {
	seen := map[string]bool{}
	for _, one := range to {
		part := hashOf(one)
		if seen[part] || len(all) == MostReceivers {
			continue
		}
		seen[part] = true
		all = append(all, job.Message{
			Key: fmt.Sprintf("%s/%d/mail/%s", e.Job, number, part), Job: e.Job, Topic: MailTopic,
			Created: e.At, Due: e.At, Body: encode(letter{one, e}),
		})
	}
	return all
}

// hashOf names an address in a key, which all users see who may list messages.
func hashOf(address string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(address)))
	return hex.EncodeToString(sum[:6])
}

// messageID names a mail: the same at each attempt and after each crash.
func (m *Mail) messageID(l *letter, s lifecycle.State) string {
	return fmt.Sprintf("%s.%s.%s@%s", l.Job, strings.ToLower(string(s)), hashOf(l.To), m.Host)
}

// Deliver sends a mail once. Each attempt has the same Message-ID: a mail may arrive twice if the server crashes, or
// the connection breaks, between its acceptance and its record. What the mail server refuses for now is tried again
// after the pauses of webhooks, anything else is abandoned.
func (m *Mail) Deliver(ctx context.Context, msg job.Message) error {
	var l letter
	if err := json.Unmarshal(msg.Body, &l); err != nil {
		return engine.Fail("mail", fmt.Errorf("mail %s: %w", msg.Key, err))
	}
	one := mail.Message{
		From: m.From, To: []string{l.To}, Subject: l.subject(), MessageID: m.messageID(&l, l.State), Date: l.At,
		Text: l.text(m.Link),
	}
	if l.Outcome == lifecycle.None { // the answer to the mail about the end
		one.InReplyTo = m.messageID(&l, l.Before)
		one.References = []string{one.InReplyTo}
	}
	err := m.Sender.Send(ctx, one)
	var e *mail.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && !e.Temp:
		return engine.Fail("mail", err)
	}
	return engine.RetryAfter(webhook.Pause(msg.Attempts), err)
}
