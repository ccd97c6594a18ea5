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
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/format/erc"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// mostMerrittParts bounds the parts of a form of Merritt, files included.
const mostMerrittParts = 1000

// merrittForm is a form as depositors send it to Merritt: fields and files in any order.
type merrittForm struct {
	upload   Upload
	sub      api.Submission
	seen     map[string]string // fields by name
	answer   string            // responseForm
	size     int64             // that the form gives; -1: none
	received []int64           // sizes of the files
}

// merritt answers the addresses of Merritt's ingest. An update adds a version to what is stored, an addition replaces
// the files of the object.
func (s *Handlers) merritt(update bool) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		app, err := s.ingest()
		if err != nil {
			return err
		}
		if err := server.Params(r).Err(); err != nil {
			return err
		}
		f := &merrittForm{seen: map[string]string{}, size: -1, answer: acceptedForm(r.Header.Get("Accept"))}
		f.sub.Update = update
		j, err := s.takeMerritt(w, r, app, f)
		if err != nil {
			return writeFault(w, f.answer, err)
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second))
		w.Header().Set("Location", "/api/v1/jobs/"+string(j.ID))
		server.Replayed(w, r)
		return writeBatch(w, f.answer, &j, f.sub.Submitter)
	}
}

// takeMerritt reads the form and makes the batch.
func (s *Handlers) takeMerritt(w http.ResponseWriter, r *http.Request, app Ingest, f *merrittForm) (job.Job, error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		return job.Job{}, problem.Refuse(http.StatusUnsupportedMediaType, job.Invalid,
			"a submission is multipart/form-data, not %.100q", r.Header.Get("Content-Type"))
	}
	if f.sub.Key, err = server.KeyOf(r, "", nil); err != nil {
		return job.Job{}, err
	}
	if scheme := r.PathValue("scheme"); scheme != "" {
		f.sub.PrimaryID = scheme + "/" + r.PathValue("shoulder") + "/" + r.PathValue("objectid")
	}
	end, err := s.Upload(w, r)
	if err != nil {
		return job.Job{}, err
	}
	defer end()
	form, err := r.MultipartReader()
	if err != nil {
		return job.Job{}, job.Errorf(job.Invalid, "submit", "", "the form: %w", err)
	}
	if f.upload, err = app.Upload(server.UserOf(r.Context())); err != nil {
		return job.Job{}, err
	}
	// a sender that goes is seen by the reader; files that are whole are kept
	ctx := context.WithoutCancel(r.Context())
	if err := f.read(ctx, form); err != nil {
		return job.Job{}, errors.Join(err, f.upload.Discard())
	}
	f.sub.Submitter = server.OwnerFor(r.Context(), f.sub.Submitter)
	if err := errors.Join(f.complete(), server.CheckName("submitter", f.sub.Submitter)); err != nil {
		return job.Job{}, errors.Join(err, f.upload.Discard())
	}
	return f.upload.Submit(ctx, f.sub)
}

// read reads the form to its end and stages its files.
func (f *merrittForm) read(ctx context.Context, form *multipart.Reader) error {
	for range mostMerrittParts {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return server.BodyError(err)
		}
		if err := f.part(ctx, part); err != nil {
			return err
		}
	}
	return job.Errorf(job.Invalid, "submit", "", "the form has more than %d parts", mostMerrittParts)
}

func (f *merrittForm) part(ctx context.Context, part *multipart.Part) error {
	_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil {
		return job.Errorf(job.Invalid, "submit", "", "a part of the form has no name")
	}
	if _, file := params["filename"]; file {
		return f.file(ctx, part)
	}
	name := part.FormName()
	text, err := io.ReadAll(io.LimitReader(part, maxField+1))
	switch {
	case err != nil:
		return server.BodyError(err)
	case len(text) > maxField:
		return problem.Refuse(http.StatusRequestEntityTooLarge, job.Invalid, "the part %.100q is larger than %d bytes",
			name,
			maxField)
	case name == "file":
		return job.Errorf(job.Invalid, "submit", "", "the part file has no file name: send it as a file")
	}
	return f.field(name, string(text))
}

// file stages a file. A form that was sent without choosing one has an empty file without a name.
func (f *merrittForm) file(ctx context.Context, part *multipart.Part) error {
	body := &counted{from: part}
	if part.FileName() == "" {
		if n, err := part.Read(make([]byte, 1)); n == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		return job.Errorf(job.Invalid, "submit", "", "a file has no name")
	}
	if err := f.upload.Add(ctx, part.FileName(), body); err != nil {
		if body.err != nil {
			return server.BodyError(body.err)
		}
		return err
	}
	f.received = append(f.received, body.n)
	return nil
}

// counted counts what is read, and keeps the error of the sender.
type counted struct {
	from io.Reader
	n    int64
	err  error
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// field takes a field of the form. Unknown ones are ignored, as in Merritt: forms of web pages have more than these.
func (f *merrittForm) field(name, text string) error {
	fields := map[string]*string{
		"submitter": &f.sub.Submitter, "profile": &f.sub.Profile, "filename": &f.sub.Filename, "title": &f.sub.Title,
		"creator": &f.sub.Creator, "date": &f.sub.Date, "note": &f.sub.Note, "notification": &f.sub.Notification,
		"digestType": &f.sub.DigestType, "digestValue": &f.sub.DigestValue, "embargo": &f.sub.Embargo,
		"embargoEndDate": &f.sub.Embargo, "primaryIdentifier": &f.sub.PrimaryID, "object": &f.sub.PrimaryID,
	}
	if element, ok := strings.CutPrefix(name, "DC."); ok {
		return f.dublinCore(strings.ToLower(element), text)
	}
	switch name { // of a file, or a text area
	case "filename", "erc":
	case "title", "creator", "date", "note":
		text = record.OneLine(text)
	default:
		text = strings.TrimSpace(text)
	}
	if before, again := f.seen[name]; again && before != text && name != "localIdentifier" {
		return job.Errorf(job.Invalid, "submit", "", "the field %.100q stands there twice", name)
	}
	f.seen[name] = text
	if text == "" { // an input that was left empty
		return nil
	}
	if to := fields[name]; to != nil {
		if name == "primaryIdentifier" || name == "object" {
			if f.sub.PrimaryID != "" && f.sub.PrimaryID != text {
				return job.Errorf(job.Invalid, "submit", "", "two primary identifiers: %.100q and %.100q",
					f.sub.PrimaryID,
					text)
			}
		}
		*to = text
		return nil
	}
	return f.other(name, text)
}

// other takes a field that has a form of its own.
func (f *merrittForm) other(name, text string) (err error) {
	switch name {
	case "type":
		f.sub.Type = merrittType(text)
	case "localIdentifier":
		f.sub.LocalIDs = append(f.sub.LocalIDs, text)
	case "responseForm":
		f.answer = answerForm(text)
	case "retainTargetURL":
		f.sub.RetainTarget = strings.EqualFold(text, "true")
	case "DataCite.resourceType":
		f.sub.ResourceType = ingest.LooseResourceType(text)
	case "erc":
		ingest.DescribeERC(text, &f.sub)
	case "size":
		if f.size, err = strconv.ParseInt(strings.TrimSpace(text), 10, 64); err != nil || f.size < 0 {
			return job.Errorf(job.Invalid, "submit", "", "the size %.100q is no number of bytes", text)
		}
	}
	return nil
}

// dublinCore takes a value of an element. Values of several lines, as text areas give them, become one. Elements that
// Dublin Core does not have are ignored as other unknown fields are.
func (f *merrittForm) dublinCore(element, text string) error {
	if text = strings.Join(strings.Fields(text), " "); text == "" || !slices.Contains(erc.Elements15, element) {
		return nil
	}
	if f.sub.DublinCore == nil {
		f.sub.DublinCore = map[string][]string{}
	}
	f.sub.DublinCore[element] = append(f.sub.DublinCore[element], text)
	return nil
}

// complete checks the form as a whole. The size holds for a file without a digest; with one it is no matter, as in a
// manifest.
func (f *merrittForm) complete() error {
	if len(f.received) == 0 {
		return job.Errorf(job.Invalid, "submit", "", "the form has no file: send it as the part file")
	}
	if f.sub.DigestType == "" || f.sub.DigestValue == "" { // as in Merritt, a half is no digest
		f.sub.DigestType, f.sub.DigestValue = "", ""
	}
	if f.size >= 0 && f.sub.DigestValue == "" && len(f.received) == 1 && f.received[0] != f.size {
		return job.Errorf(job.Invalid, "submit", "", "the file has %d bytes, the form has %d", f.received[0], f.size)
	}
	return nil
}

// merrittType gives the type of a submission as Merritt reads it: by what the word contains.
func merrittType(text string) string {
	low := strings.ToLower(strings.TrimSpace(text))
	switch {
	case low == "manifest" || low == ingest.TypeObjectManifest:
		return ingest.TypeObjectManifest
	case strings.Contains(low, ingest.TypeFileBatchManifest) || low == "batchmanifestfile":
		return ingest.TypeFileBatchManifest
	case strings.Contains(low, ingest.TypeContainerBatchManifest) || low == "batchmanifestcontainer":
		return ingest.TypeContainerBatchManifest
	case strings.Contains(low, ingest.TypeBatchManifest) || low == "batchmanifest":
		return ingest.TypeBatchManifest
	}
	return low
}

// Forms of Merritt's answers.
const (
	answerXML  = "xml"
	answerJSON = "json"
	answerANVL = "anvl"
)

// answerForm gives the form of a word or media type. Others are answered as XML, as Merritt does.
func answerForm(text string) string {
	switch first, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(text)), ";"); first {
	case answerJSON, "application/json":
		return answerJSON
	case answerANVL, "text/x-anvl":
		return answerANVL
	}
	return answerXML
}

// acceptedForm gives the form that a header Accept prefers of those that are known: the first one of the highest
// quality.
func acceptedForm(header string) string {
	form, best := answerXML, 0.0
	for part := range strings.SplitSeq(header, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			quality = q
		}
		known := answerForm(media)
		if known == answerXML && media != "text/xml" && media != "application/xml" {
			continue
		}
		if quality > best {
			form, best = known, quality
		}
	}
	return form
}

// writeBatch answers with Merritt's batchState.
func writeBatch(w http.ResponseWriter, form string, j *job.Job, submitter string) error {
	status := "QUEUED"
	if j.Ended { // sent again under its key
		status = strings.ToUpper(string(j.State))
	}
	return writeState(w, http.StatusOK, form, state{prefix: "bat", name: "batchState",
		space: "http://uc3.cdlib.org/ontology/mrt/ingest/batch", members: [][2]string{
			{"batchID", string(j.ID)}, {"jobStates", ""}, {"batchStatus", status}, {"userAgent", submitter},
			{"submissionDate", j.Created.UTC().Format("2006-01-02T15:04:05-07:00")},
		}})
}

// refuseMerritt answers a refusal of the sign-in, before any form is read.
func refuseMerritt(w http.ResponseWriter, r *http.Request, err error) error {
	if status := problem.Of(err).Status; status != http.StatusUnauthorized && status != http.StatusForbidden {
		return err
	}
	return writeFault(w, acceptedForm(r.Header.Get("Accept")), err)
}

// writeFault answers with an exception in the form of the answer. Failures of the server are left to it.
func writeFault(w http.ResponseWriter, form string, err error) error {
	p := problem.Of(err)
	if p.Status >= http.StatusInternalServerError {
		return err
	}
	return writeState(w, p.Status, form, state{prefix: "exc", name: "exception",
		space: "http://uc3.cdlib.org/ontology/mrt/exc", members: [][2]string{
			{"status", string(p.Kind)}, {"statusDescription", p.Title}, {"error", p.Detail},
		}})
}
