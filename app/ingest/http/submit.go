package ingesthttp

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// Ingest accepts submissions and reports on them. Package ingest implements it.
type Ingest interface {
	// Submit reads the payload to its end and gives the batch once both are safe. An error of the reader is a failed
	// submission. user is the owner of a user token, which may use its own objects only; an empty one may use all.
	Submit(ctx context.Context, user string, s api.Submission, payload io.Reader) (job.Job, error)
	// Upload begins a submission whose files come before its description. user is as for Submit.
	Upload(user string) (Upload, error)
	Report(ctx context.Context, batch job.ID) (Report, error)
	// Batch gives the record of a batch. Any other job is Invalid.
	Batch(ctx context.Context, id job.ID) (job.Job, error)
	// Objects lists those that the user may use.
	Objects(ctx context.Context, user string, q api.ObjectQuery) (api.Objects, error)
}

// Upload is a submission that is being received. One of Submit and Discard ends it; after an error it is at its end.
type Upload interface {
	// Add reads a file to its end; when it returns, the file is safe.
	Add(ctx context.Context, name string, from io.Reader) error
	// Submit makes the batch of the files.
	Submit(ctx context.Context, s api.Submission) (job.Job, error)
	Discard() error
}

// Report is the report about a batch, and functions that make its other forms. HTML and CSV may be missing.
type Report struct {
	Batch api.BatchReport
	Ended bool // the batch has ended
	Text  func() string
	HTML  func() (string, error)
	CSV   func(completed bool) []byte
}

// Bounds of a submission's form (check S5).
const (
	maxParts = 64
	maxField = 64 << 10 // bytes of a part that is not the payload
)

func (s *Handlers) ingest() (Ingest, error) {
	if s.Ingest == nil {
		return nil, problem.Absent("ingest", "this server takes no submissions", "module ingest")
	}
	return s.Ingest, nil
}

// submit streams a payload from the request to the application. The payload must be the last part.
func (s *Handlers) submit(w http.ResponseWriter, r *http.Request) error {
	app, err := s.ingest()
	if err != nil {
		return err
	}
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	end, err := s.Upload(w, r)
	if err != nil {
		return err
	}
	defer end()
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return problem.Refuse(http.StatusUnsupportedMediaType, job.Invalid,
			"a submission is multipart/form-data, not %.100q", r.Header.Get("Content-Type"))
	}
	form, err := r.MultipartReader()
	if err != nil {
		return job.Errorf(job.Invalid, "submit", "", "the form: %w", err)
	}
	sub, payload, err := readForm(form)
	if err != nil {
		return err
	}
	if sub.Key, err = server.KeyOf(r, sub.Key, sub); err != nil {
		return err
	}
	sub.Submitter = server.OwnerFor(r.Context(), sub.Submitter)
	if err := server.CheckName("submitter", sub.Submitter); err != nil {
		return err
	}
	whole := &lastPart{form: form, part: payload}
	// a sender that goes is seen by the reader; a payload that is whole is kept
	j, err := app.Submit(context.WithoutCancel(r.Context()), server.UserOf(r.Context()), sub, whole)
	if err == nil {
		err = whole.finish()
	}
	if err != nil {
		if whole.err != nil && !errors.Is(whole.err, io.EOF) {
			return server.BodyError(whole.err)
		}
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second))
	w.Header().Set("Location", "/api/v1/jobs/"+string(j.ID))
	return server.ReplyJob(w, r, server.Made(w, r), j.Version, s.View(j))
}

// readForm reads the parts before the payload and gives the payload's part, unread.
func readForm(form *multipart.Reader) (api.Submission, *multipart.Part, error) {
	var sub api.Submission
	seen := map[string]int{}
	for range maxParts {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return sub, nil, job.Errorf(job.Invalid, "submit", "", "the part payload is missing")
		}
		if err != nil {
			return sub, nil, server.BodyError(err)
		}
		name := part.FormName()
		if seen[name]++; seen[name] > 1 && name != "local_ids" {
			return sub, nil, job.Errorf(job.Invalid, "submit", "", "the part %.100q stands there twice", name)
		}
		if name == "payload" {
			if sub.Filename == "" {
				sub.Filename = sentName(part)
			}
			return sub, part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if err != nil {
			return sub, nil, server.BodyError(err)
		}
		if len(text) > maxField {
			return sub, nil, problem.Refuse(http.StatusRequestEntityTooLarge, job.Invalid,
				"the part %.100q is larger than %d bytes", name, maxField)
		}
		if name == "submission" {
			err = server.Strict(text, &sub)
		} else {
			err = setField(&sub, name, string(text))
		}
		if err != nil {
			return sub, nil, err
		}
	}
	return sub, nil, job.Errorf(job.Invalid, "submit", "", "the form has more than %d parts before its payload",
		maxParts)
}

// sentName gives the file name that a browser or curl sent with the payload; the client's own "payload" is none.
func sentName(part *multipart.Part) string {
	if name := part.FileName(); name != "payload" {
		return name
	}
	return ""
}

// setField sets one field of a submission from a part of its name.
func setField(sub *api.Submission, name, text string) error {
	fields := map[string]*string{
		"type": &sub.Type, "profile": &sub.Profile, "submitter": &sub.Submitter, "title": &sub.Title,
		"creator": &sub.Creator,
		"date":    &sub.Date, "filename": &sub.Filename, "primary_id": &sub.PrimaryID, "digest_type": &sub.DigestType,
		"digest_value": &sub.DigestValue, "notification": &sub.Notification, "note": &sub.Note, "key": &sub.Key,
		"resource_type": &sub.ResourceType, "embargo": &sub.Embargo,
	}
	if field := fields[name]; field != nil {
		switch name {
		case "title", "creator", "date", "note":
			text = record.OneLine(text)
		case "filename":
		default:
			text = strings.TrimSpace(text)
		}
		*field = text
		return nil
	}
	var err error
	switch name {
	case "local_ids":
		sub.LocalIDs = append(sub.LocalIDs,
			strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' || r == '\r' })...)
	case "update":
		sub.Update, err = strconv.ParseBool(text)
	case "retain_target":
		sub.RetainTarget, err = strconv.ParseBool(text)
	case "priority":
		var n int
		n, err = strconv.Atoi(text)
		sub.Priority = &n
	default:
		known := []string{"submission", "payload", "local_ids", "update", "retain_target", "priority"}
		for k := range fields {
			known = append(known, k)
		}
		slices.Sort(known)
		return job.Errorf(job.Invalid, "submit", "", "there is no field %.100q (known: %s)", name,
			strings.Join(known, ", "))
	}
	if err != nil {
		return job.Errorf(job.Invalid, "submit", "", "the field %s: %.100q is not what it takes", name, text)
	}
	return nil
}

// lastPart reads the payload and, at its end, makes sure that nothing follows: a form that was cut off or goes on is an
// error before the application takes the payload for whole.
type lastPart struct {
	form *multipart.Reader
	part *multipart.Part
	err  error
}

func (l *lastPart) Read(b []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.part.Read(b)
	if errors.Is(err, io.EOF) {
		if _, next := l.form.NextPart(); next == nil {
			err = errors.New("the payload must be the last part of the form")
		} else if !errors.Is(next, io.EOF) {
			err = next
		}
	}
	l.err = err
	return n, err
}

// finish reads on to the end if the application did not.
func (l *lastPart) finish() error {
	if _, err := io.Copy(io.Discard, l); err != nil {
		return err
	}
	return nil
}

func (s *Handlers) objects(w http.ResponseWriter, r *http.Request) error {
	app, err := s.ingest()
	if err != nil {
		return err
	}
	p := server.Params(r)
	q := api.ObjectQuery{
		ARK: p.Text("ark"), LocalID: p.Text("local_id"), Owner: p.Text("owner"), Digest: p.Text("digest"),
	}
	q.After, q.Limit = p.Page()
	if err := p.Err(); err != nil {
		return err
	}
	list, err := app.Objects(r.Context(), server.UserOf(r.Context()), q)
	if err != nil {
		return err
	}
	return server.Reply(w, list)
}
