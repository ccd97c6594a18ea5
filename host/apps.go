package host

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/stagepost/stagepost/app/ingest"
	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/mail"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// openApps opens the applications of a server, and gives the one that takes submissions.
func (r *Server) openApps(s *Settings, store job.Store, installation string, logs ingest.Logs) (ingesthttp.Ingest, error) {
	profiles, err := OpenProfiles(s, r.Data)
	if err != nil {
		return nil, err
	}
	sender, err := mailSender(s, r.Log)
	if err != nil {
		return nil, err
	}
	app, err := ingest.New(ingest.Options{
		Dir: r.Data, Installation: installation, Records: store, Mail: sender, Profiles: profiles, From: s.MailFrom, Host: s.MailHost, Site: s.MailLink, Log: r.Log, Moved: r.metrics.Moved, Keep: s.IngestKeep, Reserve: WordOr(s.IngestReserve),
		FixityEvery: s.FixityEvery, FixityRate: s.FixityRate, TrashKeep: s.IngestTrash, WorkKeep: WordOr(s.IngestWork), Logs: logs,
	})
	if err != nil {
		return nil, err
	}
	r.apps = append(r.apps, app)
	for _, a := range r.apps {
		r.closers = append(r.closers, a)
	}
	return submissions{app}, nil
}

// mailSender gives the way of mails to a server, or nil: then they are files.
func mailSender(s *Settings, log *slog.Logger) (mail.Sender, error) {
	if s.MailSMTP == "" {
		return nil, nil
	}
	o := mail.Options{Addr: s.MailSMTP, TLS: mail.TLSMode(s.MailTLS), User: s.MailUser, Hello: s.MailHost, Log: log}
	if s.MailPassword != "" {
		text, err := os.ReadFile(s.MailPassword)
		if err != nil {
			return nil, cli.Usagef("mail.password_file: %v", err)
		}
		o.Password = mail.Secret(strings.TrimRight(string(text), "\r\n"))
	}
	sender, err := mail.SMTP(o)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return sender, nil
}

// submissions joins the server to the application: the same words in both, in types of their own.
type submissions struct{ app *ingest.App }

func (i submissions) Submit(ctx context.Context, user string, s client.Submission, payload io.Reader) (job.Job, error) {
	if server.IsUser(ctx) {
		ctx = ingest.AsUser(ctx)
	}
	return i.app.SubmitFor(ctx, user, s, payload)
}

func (i submissions) Report(ctx context.Context, batch job.ID) (ingesthttp.Report, error) {
	report, err := i.app.Report(ctx, batch)
	if err != nil {
		return ingesthttp.Report{}, err
	}
	text, err := json.Marshal(report)
	return ingesthttp.Report{JSON: text, Text: report.Text(), HTML: report.HTML, CSV: report.CSV}, err
}

func (i submissions) Objects(ctx context.Context, user string, q client.ObjectQuery) (json.RawMessage, error) {
	objects, err := i.app.Objects(ctx, ingest.ObjectQuery{
		ARK: q.ARK, LocalID: q.LocalID, Owner: q.Owner, Digest: q.Digest, After: q.After, Limit: q.Limit, Permit: i.app.Permit(user),
	})
	if err != nil {
		return nil, err
	}
	if objects == nil {
		objects = []ingest.Object{}
	}
	next := ""
	if n := len(objects); n > 0 && n == cmp.Or(q.Limit, 50) { // a full page: there may be more
		next = objects[n-1].ARK
	}
	return json.Marshal(struct {
		Objects []ingest.Object `json:"objects"`
		Next    string          `json:"next,omitempty"`
	}{objects, next})
}
