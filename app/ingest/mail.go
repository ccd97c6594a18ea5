package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
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

// letter is a mail in the outbox. Its bodies and attachments are made when it is delivered, that of a report of the report's file, so that the
// outbox stays small. What is made is the same at every attempt.
type letter struct {
	receivers
	Subject    string    `json:"subject"`
	MessageID  string    `json:"message_id"`
	InReplyTo  string    `json:"in_reply_to,omitempty"`
	References []string  `json:"references,omitempty"`
	Date       time.Time `json:"date"`
	Text       string    `json:"text,omitempty"` // of letters that older versions left in the outbox
	Queued     *queued   `json:"queued,omitempty"`
	Batch      job.ID    `json:"batch,omitempty"` // of the report
	Generation int       `json:"generation,omitempty"`
}

// messageID names a mail by its batch and what it is: the same at every attempt and after every crash.
func (a *App) messageID(batch job.ID, kind string) string {
	return fmt.Sprintf("%s.%s@%s", batch, kind, a.options.Host)
}

func reportKind(generation int) string { return fmt.Sprintf("report.%d", generation) }

// sendQueued tells that a batch was queued, or could not be. It begins the thread of the batch's mails.
func (a *App) sendQueued(r *engine.Run, p *profile.Profile, s *batchSpec, d *batchData, failure error) error {
	to := whom(p, &s.Submission, failure != nil)
	if p.Suppress != profile.SuppressNone || to.nobody() {
		return nil
	}
	b := r.Job()
	q := &queued{
		Batch: b.ID, Filename: s.Filename, Profile: s.Profile, Submitter: s.Submitter, Submitted: b.Created.UTC(), Bytes: s.Payload.Size, Objects: d.Jobs,
	}
	l := letter{receivers: to, Date: b.Created, Subject: "Ingest: OK -- Submission Queued: " + string(b.ID) + ";", Queued: q}
	kind := "queued"
	if failure != nil {
		l.Subject, kind = "Ingest: FAIL -- Submission Queue Failed: "+string(b.ID)+";", "queue-failed"
		q.Cause, q.Failure = d.Cause, failure.Error()
	}
	l.MessageID = a.messageID(b.ID, kind)
	return r.Send(mailTopic, fmt.Sprintf("%s/%s", b.ID, kind), l)
}

// sendReport puts the mail about a report into the outbox: an answer to the report before, or to the mail that the batch was queued.
func (a *App) sendReport(r *engine.Run, p *profile.Profile, s *batchSpec, d *batchData, rep *BatchReport) error {
	to := whom(p, &s.Submission, rep.bad())
	if p.Suppress == profile.SuppressFull || to.nobody() {
		return nil
	}
	word := "OK"
	if rep.bad() {
		word = "FAIL"
	}
	l := letter{
		receivers: to, Date: rep.Ended, Batch: rep.Batch, Generation: rep.Generation,
		Subject:   fmt.Sprintf("Ingest: %s -- Submission Processed: %s;", word, rep.Batch),
		MessageID: a.messageID(rep.Batch, reportKind(rep.Generation)),
	}
	l.References = []string{a.messageID(rep.Batch, "queued")}
	if d.Reports > 0 {
		l.References = append(l.References, a.messageID(rep.Batch, reportKind(d.Last)))
	}
	l.InReplyTo = l.References[len(l.References)-1]
	return r.Send(mailTopic, fmt.Sprintf("%s/report/%d", rep.Batch, rep.Generation), l)
}

// deliverMail sends a letter. Sending again is harmless: the Message-ID is the same.
func (a *App) deliverMail(ctx context.Context, m job.Message) error {
	var l letter
	if err := json.Unmarshal(m.Body, &l); err != nil {
		return &errCaused{cause: "mail", err: fmt.Errorf("mail %s: %w", m.Key, err)}
	}
	msg := mail.Message{
		From: a.options.From, To: l.To, Cc: l.Cc, Bcc: l.Bcc, Subject: l.Subject, MessageID: l.MessageID,
		InReplyTo: l.InReplyTo, References: l.References, Date: l.Date, Text: l.Text,
	}
	var err error
	switch {
	case l.Queued != nil:
		msg.Text = l.Queued.text()
		msg.HTML, err = l.Queued.page(a.link(l.Queued.Batch, "")).render()
	case l.Batch != "":
		err = a.attach(&msg, &l)
	}
	if err != nil {
		return err
	}
	return a.options.Mail.Send(ctx, msg)
}

// Bounds of a mail about a report. Four attachments of the largest size are, as they are sent, about half of what most servers take.
const (
	mostShown     = 200     // objects of one list in the body
	maxAttachment = 2 << 20 // bytes
)

// attach makes bodies and attachments of a report's file: failed.json and completed.json, as Merritt has them, and both as CSV. What is too
// large is cut, and the bodies say so.
func (a *App) attach(msg *mail.Message, l *letter) error {
	data, err := a.readReport(l.Batch, l.Generation)
	if errors.Is(err, fs.ErrNotExist) {
		return &errCaused{cause: "mail", err: fmt.Errorf("report %d of %s is gone with its directory: %w", l.Generation, l.Batch, err)}
	}
	if err != nil {
		return err
	}
	var rep BatchReport
	if err := json.Unmarshal(data, &rep); err != nil {
		return &errCaused{cause: "mail", err: fmt.Errorf("report %d of %s: %w", l.Generation, l.Batch, err)}
	}
	notes, err := a.attachLists(msg, &rep)
	if err != nil {
		return err
	}
	msg.Text = rep.text(mostShown)
	for _, note := range notes {
		msg.Text += "\n" + note + "\n"
	}
	page := rep.page(mostShown, a.link(l.Batch, ""))
	page.Notes = append(page.Notes, notes...)
	msg.HTML, err = page.render()
	return err
}

// attachLists attaches the four lists and gives a sentence for each that was cut.
func (a *App) attachLists(msg *mail.Message, rep *BatchReport) (notes []string, err error) {
	for _, list := range []struct {
		completed bool
		name      string
	}{{false, "failed"}, {true, "completed"}} {
		all := len(rep.with(list.completed))
		whole := a.whole(rep.Batch, "csv-"+list.name)
		text, left, err := rep.listJSON(list.completed, maxAttachment, whole)
		if err != nil {
			return nil, err
		}
		table, leftOfTable := rep.csv(list.completed, maxAttachment, whole)
		for _, one := range []struct {
			name, kind string
			data       []byte
			left       int
		}{
			{list.name + ".json", "application/json", text, left}, {list.name + ".csv", "text/csv; charset=utf-8", table, leftOfTable},
		} {
			msg.Attachments = append(msg.Attachments, mail.Attachment{Name: one.name, ContentType: one.kind, Data: one.data})
			if one.left > 0 {
				notes = append(notes, "The attachment "+one.name+" is cut. "+cutSentence(all-one.left, all, whole))
			}
		}
	}
	return notes, nil
}

// whole says where a list can be had that was cut.
func (a *App) whole(batch job.ID, format string) string {
	if link := a.link(batch, format); link != "" {
		return "All of it: " + link
	}
	return fmt.Sprintf("For all of it, ask the staff of the archive for the report of %s as %s.", batch, format)
}

// checkSite sees that links can be made of the address of the server.
func checkSite(site string) (string, error) {
	if site == "" {
		return "", nil
	}
	u, err := url.Parse(strings.TrimRight(site, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return "", fmt.Errorf("ingest: the address for links in mails, %q, is no http or https URL", site)
	}
	return u.String(), nil
}

// link gives the address of a batch's page, or of its report in a format, if depositors can reach the server.
func (a *App) link(batch job.ID, format string) string {
	switch {
	case a.options.Site == "":
		return ""
	case format == "":
		return a.options.Site + "/batches/" + string(batch)
	}
	return a.options.Site + "/api/ingest/batches/" + string(batch) + "/report?format=" + format
}

// listJSON gives the jobs that completed, or those that failed, in Merritt's form. It holds no more jobs than fit into most bytes; then a
// member "cut" says so, and left is the number of those that are missing.
func (r *BatchReport) listJSON(completed bool, most int, where string) (text []byte, left int, err error) {
	key := "failedJobs"
	if completed {
		key = "completedJobs"
	}
	jobs := r.with(completed)
	text = []byte("{\n  \"" + key + "\": [")
	for i := range jobs {
		one, err := json.MarshalIndent(&jobs[i], "    ", "  ")
		if err != nil {
			return nil, 0, err
		}
		if len(text)+len(one) > most {
			left = len(jobs) - i
			break
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, "\n    "...), one...)
	}
	if len(jobs) > left {
		text = append(text, "\n  "...)
	}
	text = append(text, ']')
	if left > 0 {
		says, err := json.Marshal(cutSentence(len(jobs)-left, len(jobs), where))
		if err != nil {
			return nil, 0, err
		}
		text = append(append(text, ",\n  \"cut\": "...), says...)
	}
	return append(text, "\n}\n"...), left, nil
}

// with gives the jobs that completed, or those that failed. Deleted ones are neither.
func (r *BatchReport) with(completed bool) []JobReport {
	all := []JobReport{}
	for _, j := range r.Jobs {
		if ok := j.Outcome == lifecycle.OK; ok == completed && j.Outcome != lifecycle.None && j.State != Deleted {
			all = append(all, j)
		}
	}
	return all
}
