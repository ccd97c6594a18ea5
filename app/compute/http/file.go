package computehttp

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
	"github.com/stagepost/stagepost/server/transfer"
)

// Where a file of a job is.
const (
	fromInputs  = "inputs"
	fromResults = "results"
)

// mostEntries is up to how many entries results may have to be read here; more can be downloaded whole.
const mostEntries = 200_000

// filePolicy keeps what a browser shows of strangers' files from doing anything (check S12).
const filePolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"

// filesCompute lists the inputs of a job and the entries of its results.
func (s *Handlers) filesCompute(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	after, limit := p.Page()
	if err := p.Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	if limit == 0 {
		limit = 1000
	}
	all, err := filesOf(app, &j)
	if err != nil {
		return err
	}
	answer := api.ComputeFiles{Files: []api.ComputeFile{}}
	for i := range all {
		if cursor := all[i].From + "/" + all[i].Name; cursor <= after {
			continue
		}
		if len(answer.Files) == limit {
			last := answer.Files[limit-1]
			answer.Next = last.From + "/" + last.Name
			break
		}
		answer.Files = append(answer.Files, all[i])
	}
	return server.Reply(w, answer)
}

// filesOf gives all files of a job: inputs, then results, each by name.
func filesOf(app Compute, j *job.Job) ([]api.ComputeFile, error) {
	if j.State == compute.Cleaned {
		return nil, job.Errorf(job.Gone, "files", j.ID, "its files were removed")
	}
	inputs, err := compute.InputsOf(j)
	if err != nil {
		return nil, err
	}
	var all []api.ComputeFile
	for _, f := range inputs {
		all = append(all, api.ComputeFile{From: fromInputs, Name: f.Name, Size: f.Size, SHA256: f.SHA256})
	}
	z, err := openResults(app, j)
	if job.KindOf(err) == job.NotFound {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	defer z.file.Close()
	sums, err := app.Sums(j)
	if err != nil {
		return nil, err
	}
	for _, f := range z.File {
		if !f.Mode().IsDir() {
			all = append(all, api.ComputeFile{
				From: fromResults, Name: f.Name, Size: int64(f.UncompressedSize64), Mode: f.Mode().String(),
				Modified: f.Modified, SHA256: sums[f.Name], Link: f.Mode()&fs.ModeSymlink != 0,
			})
		}
	}
	slices.SortFunc(all, func(a, b api.ComputeFile) int {
		return strings.Compare(a.From+"/"+a.Name, b.From+"/"+b.Name)
	})
	return all, nil
}

// openedResults are the results of a job, open.
type openedResults struct {
	*zip.Reader
	file  *os.File
	about *compute.Results
}

// openResults opens the results of a job to read entries. The caller closes the file.
func openResults(app Compute, j *job.Job) (*openedResults, error) {
	f, about, err := app.Results(j)
	if err != nil {
		return nil, err
	}
	if about.Files > mostEntries {
		return nil, errors.Join(job.Errorf(job.Refused, "files", j.ID,
			"its results have %d files, too many to list: download them whole", about.Files), f.Close())
	}
	z, err := zip.NewReader(f, about.Bytes)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, errors.Join(job.Errorf(job.Internal, "files", j.ID, "its results cannot be read: %w", err),
			f.Close())
	}
	return &openedResults{z, f, about}, nil
}

// fileCompute gives one file of a job, or a part of it: of the results if they have it, else of the inputs.
func (s *Handlers) fileCompute(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	from := p.Choice("from", fromResults, fromInputs)
	if err := p.Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	name := r.PathValue("path")
	if from != fromInputs {
		err = s.resultFile(w, r, app, &j, name)
		if from == fromResults || job.KindOf(err) != job.NotFound {
			return err
		}
	}
	f, missing := app.Input(&j, name)
	if missing != nil && job.KindOf(missing) == job.NotFound && from == "" {
		return nowhere(&j, name)
	}
	if missing != nil {
		return missing
	}
	defer f.Close()
	inputs, err := compute.InputsOf(&j)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(inputs, func(f compute.File) bool { return f.Name == name })
	if at < 0 {
		return nowhere(&j, name)
	}
	return s.serveFile(w, r, download{id: j.ID, name: name, etag: `"` + inputs[at].SHA256 + `"`, modified: j.Created,
		content: f})
}

// nowhere reports that a job has no such file.
func nowhere(j *job.Job, name string) error {
	if d, err := compute.DataOf(j); err == nil && d.Results == nil {
		return job.Errorf(job.NotFound, "files", j.ID,
			"there is no file %.100q: it is not among its inputs, and there are no results (%s)", name, j.State)
	}
	return job.Errorf(job.NotFound, "files", j.ID,
		"there is no file %.100q: it is neither among its results nor among its inputs", name)
}

// resultFile gives one file out of the results.
func (s *Handlers) resultFile(w http.ResponseWriter, r *http.Request, app Compute, j *job.Job, name string) error {
	z, err := openResults(app, j)
	if err != nil {
		return err
	}
	defer z.file.Close()
	at := slices.IndexFunc(z.File, func(f *zip.File) bool { return f.Name == name || f.Name == name+"/" })
	if at < 0 {
		return job.Errorf(job.NotFound, "files", j.ID, "there is no file %.100q in the results", name)
	}
	entry := z.File[at]
	switch mode := entry.Mode(); {
	case mode.IsDir():
		return job.Errorf(job.Refused, "files", j.ID, "%.100q is a directory", name)
	case mode&fs.ModeSymlink != 0:
		return job.Errorf(job.Refused, "files", j.ID,
			"%.100q is a symbolic link, which is not followed: ask for the file that it leads to", name)
	case !mode.IsRegular():
		return job.Errorf(job.Refused, "files", j.ID, "%.100q is no file", name)
	}
	sum := sha256.Sum256([]byte(z.about.SHA256 + "/" + name))
	d := download{id: j.ID, name: name, etag: `"` + hex.EncodeToString(sum[:16]) + `"`, modified: entry.Modified}
	if entry.Method == zip.Store {
		start, err := entry.DataOffset()
		if err != nil {
			return job.Errorf(job.Internal, "files", j.ID, "%w", err)
		}
		d.content = io.NewSectionReader(z.file, start, int64(entry.UncompressedSize64))
		return s.serveFile(w, r, d)
	}
	if strings.Contains(r.Header.Get("Range"), ",") {
		// each of several ranges would have all before it unpacked: the whole is cheaper, and allowed (RFC 9110,
		// section 14.2)
		r.Header.Del("Range")
	}
	content := &unpacking{entry: entry}
	defer content.close()
	d.content = content
	return s.serveFile(w, r, d)
}

// download is a file that a request gets.
type download struct {
	id       job.ID
	name     string
	etag     string
	modified time.Time
	content  io.ReadSeeker
	media    string // defaults to application/octet-stream
}

// serveFile gives a file, whole or in ranges, in a way that no browser shows or runs it.
func (s *Handlers) serveFile(w http.ResponseWriter, r *http.Request, d download) error {
	h := w.Header()
	if d.media == "" {
		d.media = "application/octet-stream"
	}
	h.Set("Content-Type", d.media)
	h.Set("Content-Disposition", transfer.Attachment(path.Base(d.name)))
	h["Content-Security-Policy"] = []string{filePolicy}
	h.Set("ETag", d.etag)
	transfer.IgnoreRange(r)
	err := transfer.Serve(w, r, s.Log, d.name, d.modified, d.content)
	switch {
	case err != nil && problem.Of(err).Status == http.StatusPreconditionFailed:
		return problem.Refuse(http.StatusPreconditionFailed, job.Conflict,
			"the file is another one than the request is for")
	case job.KindOf(err) == job.Conflict:
		return job.Errorf(job.Internal, "files", d.id, "%.100q cannot be read: %w", d.name, err)
	}
	return err
}

// unpacking reads a packed entry as if it could be read anywhere: it unpacks from the beginning up to the requested
// offset, and goes on from there. Memory is that of one decompressor, however large the entry.
type unpacking struct {
	entry *zip.File
	body  io.ReadCloser
	at    int64 // of body
	want  int64 // where the next byte is read
}

// Seek is part of io.Seeker. It unpacks nothing.
func (u *unpacking) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += u.want
	case io.SeekEnd:
		offset += int64(u.entry.UncompressedSize64)
	}
	if offset < 0 {
		return u.want, errors.New("an offset before the beginning")
	}
	u.want = offset
	return offset, nil
}

// Read is part of io.Reader.
func (u *unpacking) Read(b []byte) (int, error) {
	if u.body == nil || u.at > u.want {
		u.close()
		body, err := u.entry.Open()
		if err != nil {
			return 0, err
		}
		u.body, u.at = body, 0
	}
	if u.at < u.want {
		n, err := io.CopyN(io.Discard, u.body, u.want-u.at)
		if u.at += n; err != nil {
			return 0, err
		}
	}
	n, err := u.body.Read(b)
	u.at += int64(n)
	u.want = u.at
	return n, err
}

func (u *unpacking) close() {
	if u.body != nil {
		_ = u.body.Close() // nothing was written
		u.body = nil
	}
}

// resultsCompute gives the results of a job as they lie on the disk.
func (s *Handlers) resultsCompute(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	f, about, err := app.Results(&j)
	if err != nil {
		return err
	}
	defer f.Close()
	if sum, err := hex.DecodeString(about.SHA256); err == nil {
		w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":") // RFC 9530
	}
	d := download{id: j.ID, name: string(j.ID) + ".zip", etag: `"` + about.SHA256 + `"`, modified: j.Entered,
		content: f, media: "application/zip"}
	if err := s.serveFile(w, r, d); err != nil {
		w.Header().Del("Repr-Digest")
		return err
	}
	return nil
}

// partialCompute gives what a job has made so far, as its agent packs it.
func (s *Handlers) partialCompute(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	body, err := app.Partial(r.Context(), &j)
	if err != nil {
		return partialError(&j, err)
	}
	defer body.Close()
	h := w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", transfer.Attachment(fmt.Sprintf("%s-partial.zip", j.ID)))
	h["Content-Security-Policy"] = []string{filePolicy}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{})
	out := transfer.Paced(w)
	if _, err := io.Copy(out, body); err != nil {
		if r.Context().Err() == nil && !errors.Is(err, context.Canceled) {
			s.Log.Warn("a partial result broke off", "job", j.ID, "error", err)
		}
		panic(http.ErrAbortHandler) // the status may be sent: only a broken connection reports that this is not all
	}
	_ = control.SetWriteDeadline(time.Now().Add(logWrite))
	return nil
}

// partialError makes an answer of what an executor reported.
func partialError(j *job.Job, err error) error {
	var e *job.Error
	switch {
	case errors.Is(err, compute.ErrNoPayload):
		return job.Errorf(job.NotFound, "partial", j.ID, "there is nothing of it yet (%s)", j.State)
	case errors.Is(err, compute.ErrNoService):
		return job.Errorf(job.Refused, "partial", j.ID, "%w", err)
	case errors.As(err, &e):
		return err
	}
	return job.Errorf(job.Unavailable, "partial", j.ID, "its agent does not give it: %w", err)
}
