package computehttp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine/repeat"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// ComputeUploads keeps resumable uploads until an order takes them. A tus.Store does, behind a thin adapter in cmd.
type ComputeUploads interface {
	// Handler serves the protocol below a path. Whose an upload is it asks [OwnerOf]; its refusals are written by
	// [FailUpload].
	Handler(prefix string) http.Handler

	// Take gives a complete upload of an owner to one order. Errors: NotFound, Refused (not complete, in use).
	Take(id, owner string) (ComputeUpload, error)
	Return(id string)       // it was not used
	Remove(id string) error // it was used, or is not wanted
}

// ComputeUpload is a complete upload.
type ComputeUpload struct {
	Name string // as a stranger sent it
	Path string
}

// submitCompute makes a job of an order with its files: a form with the part `order` first and the files behind it, or
// JSON alone.
func (s *Handlers) submitCompute(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.compute()
	if err != nil {
		return err
	}
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var o api.ComputeOrder
	var rest nextPart
	switch {
	case err == nil && media == "multipart/form-data":
		end, refused := s.Upload(w, r)
		if refused != nil {
			return refused
		}
		defer end()
		form, wrong := r.MultipartReader()
		if wrong != nil {
			return job.Errorf(job.Invalid, "compute", "", "the form: %w", wrong)
		}
		rest = form.NextPart
		o, err = firstPart(form)
	default:
		r.Body = http.MaxBytesReader(w, r.Body, s.MaxBody)
		o, err = server.Decode[api.ComputeOrder](r, true)
	}
	if err != nil {
		return err
	}
	j, err := s.order(r, app, &o, rest)
	if err != nil {
		return err
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second))
	w.Header().Set("Location", computePath(j.ID))
	return s.replyCompute(w, r, app, &j, server.Made(w, r))
}

// order makes the job of an order with the files of its form; nil: it has none.
func (s *Handlers) order(r *http.Request, app Compute, o *api.ComputeOrder, rest nextPart) (job.Job, error) {
	g, err := s.gather(r, app, o)
	if err != nil {
		return job.Job{}, err
	}
	defer g.upload.Discard()
	return g.all(r.Context(), o, rest)
}

// nextPart gives the parts of a form one after the other; io.EOF is the end.
type nextPart func() (*multipart.Part, error)

// firstPart reads the order out of a form.
func firstPart(form *multipart.Reader) (o api.ComputeOrder, err error) {
	part, err := form.NextPart()
	if errors.Is(err, io.EOF) || err == nil && part.FormName() != "order" {
		return o, job.Errorf(job.Invalid, "compute", "",
			"the first part of the form must be `order`, which describes what is to be done with the files after it")
	}
	if err != nil {
		return o, server.BodyError(err)
	}
	text, err := io.ReadAll(io.LimitReader(part, mostOrder+1))
	if err != nil {
		return o, server.BodyError(err)
	}
	if len(text) > mostOrder {
		return o, problem.Refuse(http.StatusRequestEntityTooLarge, job.Invalid,
			"the part order is larger than %d bytes", mostOrder)
	}
	return o, server.Strict(text, &o)
}

// gathering brings the files of an order together.
type gathering struct {
	server *Handlers
	app    Compute
	order  compute.Order
	owner  string // of uploads
	upload *compute.Upload
	first  *job.Job          // that the key made already
	had    map[string]string // its files: name and SHA-256
	names  map[string]bool
	used   []string // uploads that are held
	lost   int      // uploads that are not there, of an order that was taken already
}

// gather checks an order and opens an upload for its files.
func (s *Handlers) gather(r *http.Request, app Compute, o *api.ComputeOrder) (*gathering, error) {
	if err := checkCompute(o); err != nil {
		return nil, err
	}
	if err := cmp.Or(server.CheckGroup(r.Context(), o.Service), mayCall(app, o)); err != nil {
		return nil, err
	}
	by, actor, err := server.ActorOf(r, "", o.Actor)
	if err != nil {
		return nil, err
	}
	g := &gathering{server: s, app: app, owner: server.OwnerOf(r.Context()), names: map[string]bool{}}
	g.order = compute.Order{
		Owner: computeOwner(r, o.Owner), Service: o.Service, Name: o.Name, Env: o.Env, Limits: limitsOf(o.Limits),
		Labels: o.Labels, Requires: o.Requires, Inputs: o.Inputs, Priority: o.Priority, Callback: o.Callback,
		By: by, Actor: actor, Note: o.Note,
	}
	if g.order.Key, err = server.KeyOf(r, o.Key, o); err != nil {
		return nil, err
	}
	if g.first, err = s.keptUnder(r.Context(), g.order.Owner, g.order.Key); err != nil {
		return nil, err
	}
	if g.first != nil {
		spec, err := compute.SpecOf(g.first)
		if err != nil {
			return nil, err
		}
		g.had = map[string]string{}
		for _, f := range spec.Files {
			g.had[f.Name] = f.SHA256
		}
	}
	g.upload, err = app.Begin(r.Context())
	return g, err
}

// keptUnder gives the job that an owner's key made already, if there is one.
func (s *Handlers) keptUnder(ctx context.Context, owner, key string) (*job.Job, error) {
	if key == "" {
		return nil, nil
	}
	page, err := s.Store.List(ctx, job.Query{Kinds: []job.Kind{compute.JobKind}, Owner: owner, Key: key, Limit: 1})
	if err != nil || len(page.Jobs) == 0 {
		return nil, err
	}
	return &page.Jobs[0], nil
}

// all takes the files and makes the job, or gives the one that the key made already.
func (g *gathering) all(ctx context.Context, o *api.ComputeOrder, rest nextPart) (j job.Job, err error) {
	defer func() {
		for _, id := range g.used {
			g.server.ComputeUploads.Return(id) // of those that were removed it does nothing
		}
	}()
	if err := g.inline(o); err != nil {
		return j, err
	}
	if rest != nil {
		if err := g.parts(rest); err != nil {
			return j, err
		}
	}
	for _, id := range o.Uploads {
		if err := g.take(id); err != nil {
			return j, err
		}
	}
	if g.lost > 0 { // the answer to the first order did not arrive, and its uploads became its files
		return *g.first, errors.Join(g.sameUploads(o), repeat.Again(ctx, g.server.Store, g.first))
	}
	if len(g.names) == 0 {
		return j, job.Errorf(job.Invalid, "compute", "",
			"there are no files, and no command: one of the files must be %s", compute.Script)
	}
	g.order.Uploads = o.Uploads
	j, err = g.upload.Commit(context.WithoutCancel(ctx), g.order) // what is whole is kept, though its sender goes
	if err != nil {
		return j, err
	}
	for _, id := range g.used {
		if err := g.server.ComputeUploads.Remove(id); err != nil {
			g.server.Log.Warn("an upload that became a job's file is still there", "upload", id, "error", err)
		}
	}
	return j, nil
}

// sameUploads refuses an order whose uploads are not there, unless they are what the first order under its key had.
func (g *gathering) sameUploads(o *api.ComputeOrder) error {
	spec, err := compute.SpecOf(g.first)
	if err != nil {
		return err
	}
	known := len(spec.Uploads) == 0 || slices.Equal(spec.Uploads, o.Uploads) // older records do not name them
	if !known || spec.Service != g.order.Service || len(g.names)+g.lost != len(g.had) {
		return job.Errorf(job.Conflict, "compute", g.first.ID,
			"this idempotency key was used for other files or another service")
	}
	return compute.SameOrder(g.first, &g.order)
}

// inline takes the files that stand in the order itself, and makes run.sh of a command.
func (g *gathering) inline(o *api.ComputeOrder) error {
	for i := range o.Files {
		f := &o.Files[i]
		if f.Text != "" && f.Base64 != nil {
			return job.Errorf(job.Invalid, "compute", "",
				"the file %.100q has text and base64: one of them is its content", f.Name)
		}
		content := io.Reader(strings.NewReader(f.Text))
		if f.Base64 != nil {
			content = strings.NewReader(string(f.Base64))
		}
		if err := g.file(f.Name, content); err != nil {
			return err
		}
	}
	if o.Command == nil {
		return nil
	}
	script, err := o.Command.Script()
	if err != nil {
		return err
	}
	return g.file(compute.Script, strings.NewReader(script))
}

// parts takes the files of a form as they come.
func (g *gathering) parts(next nextPart) error {
	for {
		part, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return server.BodyError(err)
		}
		name, err := partName(part)
		if err != nil {
			return err
		}
		if err := g.file(name, part); err != nil {
			return err
		}
	}
}

// partName gives the name of a file as it was sent: part.FileName would make "c" of "a/b/c" without a word.
func partName(part *multipart.Part) (string, error) {
	_, fields, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || fields["filename"] == "" {
		return "", job.Errorf(job.Invalid, "compute", "", "the part %.100q has no file name", part.FormName())
	}
	return fields["filename"], nil
}

// take takes an upload over.
func (g *gathering) take(id string) error {
	if g.server.ComputeUploads == nil {
		return noUploads()
	}
	up, err := g.server.ComputeUploads.Take(id, g.owner)
	if job.KindOf(err) == job.NotFound && g.first != nil {
		g.lost++
		return nil
	}
	if err != nil {
		return err
	}
	g.used = append(g.used, id)
	if up.Name == "" {
		return job.Errorf(job.Invalid, "compute", "", "the upload %.40q has no filename in its metadata", id)
	}
	if err := g.named(up.Name); err != nil {
		return err
	}
	return g.upload.Adopt(up.Name, up.Path)
}

// named notes a file; two with one name would be one.
func (g *gathering) named(name string) error {
	if g.names[name] {
		return job.Errorf(job.Invalid, "compute", "", "there are two files %.100q", name)
	}
	if len(g.names) >= mostFormFiles {
		return job.Errorf(job.Invalid, "compute", "", "an order has at most %d files", mostFormFiles)
	}
	if !strings.ContainsAny(name, "/\x00") {
		if err := server.CheckText("the name of a file", name, 255); err != nil {
			return err
		}
	}
	g.names[name] = true
	return nil
}

// file takes one file. An error of its sender is reported as such, one of the disk is the server's.
func (g *gathering) file(name string, r io.Reader) error {
	if err := g.named(name); err != nil {
		return err
	}
	source := &watchedReader{Reader: r}
	sum := sha256.New()
	err := g.upload.File(name, io.TeeReader(source, sum))
	var e *job.Error
	switch {
	case source.err != nil:
		return server.BodyError(source.err)
	case err != nil && !errors.As(err, &e):
		return job.Errorf(job.Unavailable, "compute", "", "the file cannot be stored: %w", err)
	case err != nil:
		return err
	}
	if digest, there := g.had[name]; g.first != nil && (!there || digest != hex.EncodeToString(sum.Sum(nil))) {
		return job.Errorf(job.Conflict, "compute", g.first.ID, "this idempotency key was used for other files")
	}
	return nil
}

// watchedReader remembers that it could not be read on.
type watchedReader struct {
	io.Reader
	err error
}

func (w *watchedReader) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
