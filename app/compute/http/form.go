package computehttp

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/web"
	"github.com/stagepost/stagepost/web/amount"
	"github.com/stagepost/stagepost/web/entered"
)

// Bounds of the fields of the form.
const (
	mostFields = 200      // fields, each upload is one
	mostField  = 64 << 10 // bytes of one
)

// formView is what the page with the form shows.
type formView struct {
	Wrong    string // why the form before was refused; empty: there was none
	Next     string // what to do about it
	Fields   map[string]string
	Uploads  []string // complete ones, of the form before
	Services []serviceChoice
	Usage    []string // what the reader uses, a sentence each
	Full     string   // why no new job can have files now; empty: it can
	Sends    string   // path of resumable uploads; empty: there are none
	Most     int64    // bytes of one request
	Key      string   // of the job: a form that is sent twice makes one
}

// serviceChoice is a service that the form offers.
type serviceChoice struct {
	api.ComputeService
	Chosen  bool
	Mine    int64 // jobs of the reader that run
	Default string
	Limit   string
}

func (s *Handlers) newPage(r *http.Request) (*web.Frame, error) { return s.formPage(r, formView{}) }

// formPage shows the form, filled in as the one before was.
func (s *Handlers) formPage(r *http.Request, v formView) (*web.Frame, error) {
	var services api.ComputeServices
	var usage api.ComputeUsage
	owner := cmp.Or(server.OwnerOf(r.Context()), anonymous)
	if err := cmp.Or(s.pages.Get(r, "/api/v1/compute/services", &services),
		s.pages.Get(r, web.With("/api/v1/compute/usage", map[string][]string{"owner": {owner}}), &usage)); err != nil {
		return nil, err
	}
	var mine api.ComputeOwner
	if len(usage.Owners) > 0 {
		mine = usage.Owners[0]
	}
	for _, one := range usable(r, services.Services) {
		v.Services = append(v.Services, serviceChoice{one, one.Name == v.Fields["service"], mine.Running[one.Name],
			limitWords(&one.Limits), limitWords(&one.Max)})
	}
	v.setUsage(&mine, &usage)
	v.Key = rand.Text()
	if v.Most = s.MaxUpload; s.ComputeUploads != nil {
		v.Sends = "/api/v1/compute/uploads"
	}
	f := &web.Frame{Title: "New compute job", Up: server.Link{Title: "Compute", Path: listPath}, Body: v}
	if v.Sends != "" {
		f.Scripts = []string{"/assets/compute.js"}
	}
	return f, nil
}

// usable returns the services for which the sender of a request may order jobs.
func usable(r *http.Request, all []api.ComputeService) []api.ComputeService {
	return slices.DeleteFunc(slices.Clone(all), func(one api.ComputeService) bool {
		return server.CheckGroup(r.Context(), one.Name) != nil
	})
}

// setUsage states what the reader uses.
func (v *formView) setUsage(mine *api.ComputeOwner, usage *api.ComputeUsage) {
	var running, queued int64
	for _, n := range mine.Running {
		running += n
	}
	for _, n := range mine.Queued {
		queued += n
	}
	v.Usage = append(v.Usage, "Your jobs: "+amount.Count(running)+" running, "+amount.Count(queued)+" waiting.")
	files := "Your files: " + quantity.Size(mine.Bytes)
	if most := usage.MostBytes; most > 0 {
		files += " of " + quantity.Size(most)
		if mine.Bytes >= most {
			v.Full = "Your files take up all the space that you may use here. The page of a job that has ended has a " +
				"button that removes its files."
		}
	}
	v.Usage = append(v.Usage, files+".")
}

// submitPage makes a job as the form asks. A refusal shows the form again with the reason; complete resumable uploads
// stay in it.
func (s *Handlers) submitPage(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return s.pages.Fail(w, r, err)
	}
	app, err := s.compute()
	if err != nil {
		return s.pages.Fail(w, r, err)
	}
	end, refused := s.Upload(w, r)
	if refused != nil {
		r.Body = http.MaxBytesReader(w, r.Body, mostField) // of a form that is refused, its fields are read alone
	} else {
		defer end()
	}
	fields, rest, err := readFields(r)
	err = cmp.Or(refused, err)
	if fillIn := fields[entered.FillIn] != nil; fillIn && err == nil {
		return s.showForm(w, r, http.StatusOK, formView{Fields: first(fields), Uploads: fields["upload"]})
	}
	var o api.ComputeOrder
	if err == nil {
		o, err = orderOf(fields)
	}
	var j job.Job
	if err == nil {
		j, err = s.order(r, app, &o, rest)
	}
	if err == nil {
		server.Replayed(w, r)
		return s.pages.Done(w, web.JobPath(j.ID), "The job is in the queue")
	}
	if fields == nil || !server.ForPeople(r) {
		return s.pages.Fail(w, r, err)
	}
	of := problem.Of(err)
	problem.Retry(w.Header(), of.Status)
	return s.showForm(w, r, of.Status, formView{Wrong: of.Detail, Next: adviceOn(of.Kind), Fields: first(fields),
		Uploads: fields["upload"]})
}

// first returns the first value of each field.
func first(fields map[string][]string) map[string]string {
	all := map[string]string{}
	for name, values := range fields {
		all[name] = values[0]
	}
	return all
}

// showForm shows the form, filled in.
func (s *Handlers) showForm(w http.ResponseWriter, r *http.Request, status int, v formView) error {
	f, err := s.formPage(r, v)
	if err != nil {
		return s.pages.Fail(w, r, err)
	}
	return s.pages.Reply(w, r, status, "new.html", f)
}

// adviceOn states what a person can do about a refused order.
func adviceOn(kind job.ErrorKind) string {
	switch kind {
	case job.Refused:
		return "Nothing was made. The page of a job that has ended has a button that removes its files."
	case job.Unavailable:
		return "Nothing was made. Send the form again in a few minutes."
	}
	return "Nothing was made. Correct what the sentence names, choose the files again, and send the form again."
}

// formFields are the fields of the form.
var formFields = []string{"title", "service", "command", "wall", "memory", "disk", "cores", "labels", "requires",
	"note", "upload", "key", entered.FillIn}

// readFields reads the fields of a form up to its first file, and gives what follows. A file field without a file is
// left out.
func readFields(r *http.Request) (map[string][]string, nextPart, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return nil, nil, problem.Refuse(http.StatusUnsupportedMediaType, job.Invalid,
			"the body must be a form (multipart/form-data); programs use POST /api/v1/compute/jobs")
	}
	fields := map[string][]string{}
	var wrong error // the first refusal: what follows is read nevertheless, so that the form can be shown again
	refuse := func(err error) { wrong = cmp.Or(wrong, err) }
	for n := 0; ; n++ {
		part, err := form.NextPart()
		switch {
		case errors.Is(err, io.EOF):
			return fields, nil, wrong
		case err != nil:
			return fields, nil, server.BodyError(err)
		}
		if isFile(part) {
			return fields, withFiles(part, form), wrong
		}
		name := part.FormName()
		if !slices.Contains(formFields, name) {
			return fields, nil, job.Errorf(job.Invalid, "form", "", "the form has no field %.40q", name)
		}
		text, err := io.ReadAll(io.LimitReader(part, mostField+1))
		if err != nil {
			return fields, nil, server.BodyError(err)
		}
		if n >= mostFields {
			return fields, nil, problem.Refuse(http.StatusRequestEntityTooLarge, job.Invalid,
				"the form has more than %d fields", mostFields)
		}
		if len(text) > mostField {
			text = bytes.ToValidUTF8(text[:mostField], nil)
			refuse(problem.Refuse(http.StatusRequestEntityTooLarge, job.Invalid,
				"the field %s has more than %d bytes: the form has its beginning", name, mostField))
		}
		value := strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
		if have := fields[name]; len(have) > 0 && name != "upload" {
			refuse(job.Errorf(job.Invalid, "form", "", "%s was sent twice", name))
		} else if value != "" {
			fields[name] = append(fields[name], value)
		}
	}
}

// isFile reports whether a part is of a field for files.
func isFile(part *multipart.Part) bool {
	_, fields, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	_, has := fields["filename"]
	return err == nil && has
}

// withFiles gives a part and those behind it, without those of file fields in which no file was chosen.
func withFiles(first *multipart.Part, form *multipart.Reader) nextPart {
	return func() (*multipart.Part, error) {
		for {
			part, err := first, error(nil)
			if first = nil; part == nil {
				part, err = form.NextPart()
			}
			if err != nil || !isFile(part) || part.FileName() != "" {
				return part, err
			}
		}
	}
}

// orderOf makes an order of the fields of the form.
func orderOf(fields map[string][]string) (o api.ComputeOrder, err error) {
	one := func(name string) string {
		if len(fields[name]) == 0 {
			return ""
		}
		return fields[name][0]
	}
	o = api.ComputeOrder{Service: one("service"), Name: one("title"), Note: strings.Join(strings.Fields(one("note")),
		" "),
		Uploads: fields["upload"], Key: one("key")}
	o.Requires = strings.FieldsFunc(one("requires"), betweenLabels)
	if command := one("command"); command != "" {
		o.Command = &api.ComputeCommand{Shell: command}
	}
	if o.Service == "" {
		return o, job.Errorf(job.Invalid, "form", "", "choose a service")
	}
	return o, cmp.Or(limitsFrom(one, &o.Limits), labelsFrom(one("labels"), &o))
}

// limitsFrom reads the limits that the form asks for.
func limitsFrom(one func(string) string, l *api.ComputeLimits) error {
	if text := one("wall"); text != "" {
		d, err := quantity.ParseDuration(text)
		if err != nil {
			return job.Errorf(job.Invalid, "form", "", "time: %w", err)
		}
		l.Wall = api.Seconds(d)
	}
	for name, to := range map[string]*api.Bytes{"memory": &l.Memory, "disk": &l.Disk} {
		if text := one(name); text != "" {
			n, err := quantity.ParseBytes(text)
			if err != nil {
				return job.Errorf(job.Invalid, "form", "", "%s: %w", name, err)
			}
			*to = api.Bytes(n)
		}
	}
	if text := one("cores"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n != n || n > 1e6 || n < 0 {
			return job.Errorf(job.Invalid, "form", "", "processors must be a number such as 2, not %.40q", text)
		}
		l.Cores = n
	}
	return nil
}

func betweenLabels(r rune) bool { return r == ',' || r == ' ' || r == '\n' }

// labelsFrom reads labels, each name=value, with blanks or commas between them.
func labelsFrom(text string, o *api.ComputeOrder) error {
	for _, label := range strings.FieldsFunc(text, betweenLabels) {
		name, value, ok := strings.Cut(label, "=")
		if !ok {
			return job.Errorf(job.Invalid, "form", "", "a label is written name=value, not %.40q", label)
		}
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[name] = value
	}
	return nil
}
