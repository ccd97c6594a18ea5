package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	netmail "net/mail"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
)

// mailTopic is the outbox's topic for mail.
const mailTopic = "mail"

// letter is a mail in the outbox. Its bodies and attachments are made when it is delivered, that of a report of the
// report's file, so that the outbox stays small. What is made is the same at every attempt.
type letter struct {
	receivers
	Subject    string         `json:"subject"`
	MessageID  string         `json:"message_id"`
	InReplyTo  string         `json:"in_reply_to,omitempty"`
	References []string       `json:"references,omitempty"`
	Date       time.Time      `json:"date"`
	ReplyTo    string         `json:"reply_to,omitempty"`
	Text       string         `json:"text,omitempty"` // of letters that older versions left in the outbox
	Queued     *report.Queued `json:"queued,omitempty"`
	Batch      job.ID         `json:"batch,omitempty"` // of the report
	Generation int            `json:"generation,omitempty"`
}

// messageID names a mail by its batch and what it is: the same at every attempt and after every crash.
func (a *App) messageID(batch job.ID, kind string) string {
	return fmt.Sprintf("%s.%s@%s", batch, kind, a.options.Host)
}

func reportKind(generation int) string { return fmt.Sprintf("report.%d", generation) }

// sendQueued reports that a batch was queued, or could not be. It begins the thread of the batch's mails.
func (a *App) sendQueued(r *engine.Run, p *profile.Profile, s *record.BatchSpec, d *record.BatchData,
	failure error) error {
	to := whom(p, &s.Submission, failure != nil)
	if p.Suppress != profile.SuppressNone || to.none() {
		return nil
	}
	b := r.Job()
	q := &report.Queued{
		Batch: b.ID, Filename: s.Filename, Profile: s.Profile, Submitter: s.Submitter, Submitted: b.Created.UTC(),
		Bytes: s.Bytes(), Objects: d.Jobs,
	}
	if len(s.More) > 0 {
		q.Files = 1 + len(s.More)
	}
	l := letter{receivers: to, Date: b.Created, Subject: "Ingest: OK -- Submission Queued: " + string(b.ID) +
		";", Queued: q}
	l.ReplyTo = p.ReplyTo
	kind := "queued"
	if failure != nil {
		l.Subject, kind = "Ingest: FAIL -- Submission Queue Failed: "+string(b.ID)+";", "queue-failed"
		q.Cause, q.Failure = d.Cause, failure.Error()
	}
	l.MessageID = a.messageID(b.ID, kind)
	return r.Send(mailTopic, fmt.Sprintf("%s/%s", b.ID, kind), l)
}

// sendReport puts the mail about a report into the outbox: an answer to the report before, or to the mail that the
// batch was queued.
func (a *App) sendReport(r *engine.Run, p *profile.Profile, s *record.BatchSpec, d *record.BatchData,
	rep *report.Batch) error {
	to := whom(p, &s.Submission, rep.Bad())
	if p.Suppress == profile.SuppressFull || to.none() {
		return nil
	}
	word := "OK"
	if rep.Bad() {
		word = "FAIL"
	}
	l := letter{
		receivers: to, Date: rep.Ended, Batch: rep.Batch, Generation: rep.Generation,
		Subject:   fmt.Sprintf("Ingest: %s -- Submission Processed: %s;", word, rep.Batch),
		MessageID: a.messageID(rep.Batch, reportKind(rep.Generation)),
	}
	l.ReplyTo = p.ReplyTo
	l.References = []string{a.messageID(rep.Batch, "queued")}
	if d.Reports > 0 {
		l.References = append(l.References, a.messageID(rep.Batch, reportKind(d.Last)))
	}
	l.InReplyTo = l.References[len(l.References)-1]
	return r.Send(mailTopic, fmt.Sprintf("%s/report/%d", rep.Batch, rep.Generation), l)
}

// deliverMail sends a letter. What cannot be sent for now, such as one that the mail server answers with 4xx, is tried
// again after the pauses of webhooks, anything else is abandoned. Sending again is harmless: the Message-ID stays.
func (a *App) deliverMail(ctx context.Context, m job.Message) error {
	err := a.sendLetter(ctx, m)
	if err == nil || !cause.Temporary(err) {
		return err
	}
	return engine.RetryAfter(webhook.Pause(m.Attempts), err)
}

func (a *App) sendLetter(ctx context.Context, m job.Message) error {
	var l letter
	if err := json.Unmarshal(m.Body, &l); err != nil {
		return &errCaused{cause: "mail", err: fmt.Errorf("mail %s: %w", m.Key, err)}
	}
	msg := mail.Message{
		From: a.options.From, To: l.To, Cc: l.Cc, Bcc: l.Bcc, Subject: l.Subject, MessageID: l.MessageID,
		InReplyTo: l.InReplyTo, References: l.References, Date: l.Date, ReplyTo: l.ReplyTo,
	}
	body := report.Body{Text: l.Text}
	var err error
	switch {
	case l.Queued != nil:
		body, err = l.Queued.Body(a.link(l.Queued.Batch, ""))
	case l.Batch != "":
		body, err = a.body(ctx, l.Batch, l.Generation)
	}
	if err != nil {
		return err
	}
	msg.Text, msg.HTML = body.Text, body.HTML
	for _, one := range body.Attachments {
		msg.Attachments = append(msg.Attachments, mail.Attachment(one))
	}
	return a.options.Mail.Send(ctx, msg)
}

// body makes bodies and attachments of a report's file.
func (a *App) body(ctx context.Context, batch job.ID, generation int) (report.Body, error) {
	data, err := a.readReport(batch, generation)
	if errors.Is(err, fs.ErrNotExist) {
		return report.Body{}, &errCaused{cause: "mail",
			err: fmt.Errorf("report %d of %s is gone with its directory: %w", generation, batch, err)}
	}
	if err != nil {
		return report.Body{}, err
	}
	var rep report.Batch
	if err := json.Unmarshal(data, &rep); err != nil {
		return report.Body{}, &errCaused{cause: "mail", err: fmt.Errorf("report %d of %s: %w", generation, batch, err)}
	}
	if p, ok := a.options.Profiles.Get(rep.Profile); ok {
		rep.Merritt = p.Reports == profile.FormMerritt
	}
	if rep.Merritt {
		if rep.Configurations, err = a.configurations(ctx, batch); err != nil {
			return report.Body{}, err
		}
	}
	return rep.Body(a.link(batch, ""), func(format string) string { return a.whole(rep.Batch, format) })
}

// whole returns the address of a list that was cut.
func (a *App) whole(batch job.ID, format string) string {
	if link := a.link(batch, format); link != "" {
		return "All of it: " + link
	}
	return fmt.Sprintf("For all of it, ask the staff of the archive for the report of %s as %s.", batch, format)
}

// checkSite sees that links can be made of the address of the server.
func checkSite(site string) (string, error) {
	link, err := mail.CheckLink(site)
	if err != nil {
		return "", fmt.Errorf("ingest: %w", err)
	}
	return link, nil
}

// link gives the address of a batch's page, or of its report in a format, if depositors can reach the server.
func (a *App) link(batch job.ID, format string) string {
	switch {
	case a.options.Site == "":
		return ""
	case format == "":
		return a.options.Site + "/batches/" + string(batch)
	}
	return a.options.Site + "/api/v1/ingest/batches/" + string(batch) + "/report?format=" + format
}

// receivers are those who get a mail.
type receivers struct {
	To  []string `json:"to"`
	Cc  []string `json:"cc,omitempty"`
	Bcc []string `json:"bcc,omitempty"`
}

func (r *receivers) none() bool { return len(r.To)+len(r.Cc)+len(r.Bcc) == 0 }

// whom returns the receivers of the mails of a batch: the depositor's own addresses, else the profile's; besides them
// those that the profile names for every mail, those for failures, and, as blind copies, its administrators. No address
// gets a mail twice.
func whom(p *profile.Profile, s *Submission, failed bool) receivers {
	r := receivers{To: p.Notification, Cc: p.NotifyAlso, Bcc: p.NotifyAdmins}
	if own, err := addresses(s.Notification); err == nil && len(own) > 0 { // a mistake was refused with the submission
		r.To = own
	}
	if failed {
		r.Cc = slices.Concat(p.NotifyAlso, p.NotifyFailure)
	}
	seen := map[string]bool{}
	for _, list := range []*[]string{&r.To, &r.Cc, &r.Bcc} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(one string) bool {
			a, err := netmail.ParseAddress(one)
			if err != nil {
				return true
			}
			key := strings.ToLower(a.Address)
			was := seen[key]
			seen[key] = true
			return was
		})
	}
	if len(r.To) == 0 {
		r.To, r.Cc = r.Cc, nil
	}
	return r
}

// maxOwn bounds the addresses of one submission.
const maxOwn = 20

// addresses reads the addresses of a submission, separated by commas. What it gives can be sent to.
func addresses(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	list, err := netmail.ParseAddressList(text)
	if err != nil {
		return nil, errors.New("it is not a list of mail addresses (NAME@HOST, with commas between them)")
	}
	if len(list) > maxOwn {
		return nil, fmt.Errorf("%d addresses, at most %d", len(list), maxOwn)
	}
	var all []string
	for _, one := range list {
		if err := mail.CheckAddress(one.String()); err != nil {
			return nil, err
		}
		all = append(all, one.String())
	}
	return all, nil
}
