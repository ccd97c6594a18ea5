package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	netmail "net/mail"
	"os"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// mailTopic is the outbox's topic for mail.
const mailTopic = "mail"

// letter is a mail in the outbox. That of a report is made of the report's files when it is delivered, so that the outbox stays small.
type letter struct {
	To         []string  `json:"to"`
	Subject    string    `json:"subject"`
	MessageID  string    `json:"message_id"`
	Date       time.Time `json:"date"`
	Text       string    `json:"text,omitempty"`
	Batch      job.ID    `json:"batch,omitempty"`
	Generation int       `json:"generation,omitempty"`
}

// receivers gives those who are told of a batch: the depositor's own address, else the profile's.
func receivers(p *profile.Profile, s *Submission) []string {
	if s.Notification == "" {
		return p.Notification
	}
	list, err := netmail.ParseAddressList(s.Notification)
	if err != nil {
		return p.Notification // it was checked at submission
	}
	var all []string
	for _, one := range list {
		all = append(all, one.String())
	}
	return all
}

// sendQueued tells that a batch was queued, or could not be.
func (a *App) sendQueued(r *engine.Run, p *profile.Profile, s *batchSpec, failure error) error {
	to := receivers(p, &s.Submission)
	if p.Suppress != profile.SuppressNone || len(to) == 0 {
		return nil
	}
	id := r.Job().ID
	l := letter{To: to, Date: r.Job().Created, Subject: "Ingest: OK -- Submission Queued: " + string(id) + ";"}
	name, state := "queued", "Your submission was queued."
	if failure != nil {
		l.Subject, name = "Ingest: FAIL -- Submission Queue Failed: "+string(id)+";", "queue-failed"
		state = "Your submission could not be queued: " + oneLine(failure.Error())
	}
	l.Text = fmt.Sprintf("\nSubmission ID: %s\nFile: %s\nProfile: %s\nUser agent: %s\nSubmission date: %s\n\n%s\n",
		id, s.Filename, s.Profile, s.Submitter, r.Job().Created.UTC().Format(time.RFC3339), state)
	l.MessageID = fmt.Sprintf("%s.%s@%s", id, name, a.options.Host)
	return r.Send(mailTopic, fmt.Sprintf("%s/%s", id, name), l)
}

// sendReport puts the mail about a report into the outbox.
func (a *App) sendReport(r *engine.Run, p *profile.Profile, s *batchSpec, rep *BatchReport) error {
	to := receivers(p, &s.Submission)
	if p.Suppress == profile.SuppressFull || len(to) == 0 {
		return nil
	}
	word := "OK"
	if rep.Failed > 0 {
		word = "FAIL"
	}
	return r.Send(mailTopic, fmt.Sprintf("%s/report/%d", rep.Batch, rep.Generation), letter{
		To: to, Date: rep.Ended, Batch: rep.Batch, Generation: rep.Generation,
		Subject:   fmt.Sprintf("Ingest: %s -- Submission Processed: %s;", word, rep.Batch),
		MessageID: fmt.Sprintf("%s.report.%d@%s", rep.Batch, rep.Generation, a.options.Host),
	})
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// deliverMail sends a letter. Sending again is harmless: the Message-ID is the same.
func (a *App) deliverMail(ctx context.Context, m job.Message) error {
	var l letter
	if err := json.Unmarshal(m.Body, &l); err != nil {
		return &errCaused{cause: "mail", err: fmt.Errorf("mail %s: %w", m.Key, err)}
	}
	msg := mail.Message{From: a.options.From, To: l.To, Subject: l.Subject, MessageID: l.MessageID, Date: l.Date, Text: l.Text}
	if l.Batch != "" {
		if err := a.attach(&msg, &l); err != nil {
			return err
		}
	}
	return a.options.Mail.Send(ctx, msg)
}

// attach makes text and attachments of a report's files: failed.json and completed.json, as Merritt has them.
func (a *App) attach(msg *mail.Message, l *letter) error {
	root, err := a.batchDir(l.Batch)
	if err != nil {
		return err
	}
	defer root.Close()
	text, err := readAll(root, fmt.Sprintf("%s/%d.txt", reportsName, l.Generation))
	if err != nil {
		return err
	}
	data, err := readAll(root, fmt.Sprintf("%s/%d.json", reportsName, l.Generation))
	if err != nil {
		return err
	}
	var rep BatchReport
	if err := json.Unmarshal(data, &rep); err != nil {
		return err
	}
	failed, err := json.MarshalIndent(map[string][]JobReport{"failedJobs": rep.with(false)}, "", "  ")
	if err != nil {
		return err
	}
	completed, err := json.MarshalIndent(map[string][]JobReport{"completedJobs": rep.with(true)}, "", "  ")
	if err != nil {
		return err
	}
	msg.Text = string(text)
	msg.Attachments = []mail.Attachment{
		{Name: "failed.json", ContentType: "application/json", Data: failed},
		{Name: "completed.json", ContentType: "application/json", Data: completed},
	}
	if len(text)+len(failed)+len(completed) > mail.MaxBytes/2 {
		msg.Attachments = nil
		msg.Text = string(text[:min(len(text), mail.MaxBytes/4)]) + "\n(The report is too long for a mail; ask for it by the submission's id.)\n"
	}
	return nil
}

// with gives the jobs that completed, or those that ended otherwise.
func (r *BatchReport) with(completed bool) []JobReport {
	all := []JobReport{}
	for _, j := range r.Jobs {
		if ok := j.Outcome == lifecycle.OK; ok == completed && j.Outcome != lifecycle.None {
			all = append(all, j)
		}
	}
	return all
}

func readAll(root *os.Root, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	return text, errors.Join(err, f.Close())
}
