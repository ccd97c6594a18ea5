// Package quizprinter prints documents by quiz archive workers that exist already: programs that print the reports of
// quiz attempts for a Moodle. To such a worker, this server is the Moodle:
//
//	PDF worker ──POST /archive/archivingmod_quiz──> quiz archive worker
//	                <──document, status, ZIP file with the PDF file── (Moodle)
//
// Each document is an order of one attempt, with a token of its own that is valid until the order ends, or
// the claim of the document does.
package quizprinter

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
)

// Options configure a printer. URL, Callback and Moodle are required; the other zero fields have the defaults.
type Options struct {
	URL      string // of the worker
	Token    string // sent to the worker as a bearer token, for a proxy before it; defaults to none
	Callback string // address under which the worker reaches Moodle
	Moodle   *Moodle
	HTTP     *http.Client  // follows no redirect; defaults to one of its own
	Ask      time.Duration // pause between two queries of the status; defaults to 10 s
	Timeout  time.Duration // of a document; defaults to 1 h, which is that of the worker
}

// Printer prints documents by one worker. It is a [pdf.Printer].
type Printer struct{ options Options }

// Limits of answers, in bytes.
const (
	maxAnswer = 1 << 20
	maxPDF    = 1 << 30
)

// New makes a printer.
func New(o Options) (*Printer, error) {
	for _, address := range []string{o.URL, o.Callback} {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%q is no address such as http://worker.example.org:8080", address)
		}
	}
	o.URL, o.Callback = strings.TrimRight(o.URL, "/"), strings.TrimRight(o.Callback, "/")
	o.Ask, o.Timeout = cmp.Or(o.Ask, 10*time.Second), cmp.Or(o.Timeout, time.Hour)
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	return &Printer{o}, nil
}

// failed is a document that was not printed. Another attempt, or another worker, can succeed.
func failed(format string, args ...any) error {
	return pdf.NewError(pdf.CauseRender, true, fmt.Errorf("quiz archive worker: "+format, args...))
}

// Render is part of [pdf.Printer]: it orders the document, waits for the ZIP file, and takes the PDF file out of it.
func (p *Printer) Render(ctx context.Context, dir string, page pdf.Page, document io.Reader, out io.Writer) error {
	text, err := page.Compose(document)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.Timeout, failed("no PDF file came in time"))
	defer cancel()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	o := p.options.Moodle.open(text, root, pdf.ClaimOf(ctx))
	defer p.options.Moodle.close(o)
	id, err := p.order(ctx, o, &page)
	if err != nil {
		return err
	}
	if err := p.wait(ctx, o, id); err != nil {
		return err
	}
	body, err := extract(root)
	if err == nil {
		body, err = pdf.Normalize(body)
	}
	if err != nil {
		return failed("%w", err)
	}
	_, err = out.Write(body)
	return err
}

// order sends an order of one attempt, and gives the id of the worker's job.
func (p *Printer) order(ctx context.Context, o *order, page *pdf.Page) (id string, err error) {
	var images any = false
	if page.Images != nil {
		i := page.Images
		images = map[string]int{"width": i.Width, "height": i.Height, "quality": i.Quality}
	}
	text, err := json.Marshal(map[string]any{
		"api_version": 1, "taskid": o.task,
		"moodle_api": map[string]any{
			"wstoken": o.token, "base_url": p.options.Callback, "max_upload_bytes": maxPDF,
			"webservice_url": p.options.Callback + servicePath, "upload_url": p.options.Callback + uploadPath,
		},
		"job": map[string]any{
			"attemptids": []int{attempt}, "paper_format": cmp.Or(page.Paper, "A4"),
			"report_sections":  map[string]string{},
			"archive_filename": "document", "foldername_pattern": "document", "filename_pattern": "document",
			"image_optimize": images, "fetch_metadata": false, "fetch_attachments": false, "keep_html_files": false,
			"flatten_archive": false, "include_filehashes": true,
		},
	})
	if err != nil {
		return "", err
	}
	var answer struct{ JobID string }
	code, err := p.ask(ctx, http.MethodPost, "/archive/archivingmod_quiz", text, &answer)
	switch {
	case err != nil:
		return "", err
	case code != http.StatusOK || answer.JobID == "":
		return "", failed("the order is answered with %d", code)
	}
	return answer.JobID, nil
}

// ask sends a request to the worker.
func (p *Printer) ask(ctx context.Context, method, path string, body []byte, into any) (code int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, p.options.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	if p.options.Token != "" {
		r.Header.Set("Authorization", "Bearer "+p.options.Token)
	}
	answer, err := p.options.HTTP.Do(r)
	if err != nil {
		return 0, failed("%w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return 0, failed("%w", err)
	}
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
		return 0, failed("%s %s is answered with %s: %.200q", method, path, answer.Status, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return 0, failed("%s %s: %w", method, path, err)
	}
	return answer.StatusCode, nil
}

// wait waits until the worker has sent the ZIP file. It asks for the status, as a worker that crashed reports none.
func (p *Printer) wait(ctx context.Context, o *order, id string) error {
	tick := time.NewTicker(p.options.Ask)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-o.ended:
			return err
		case <-tick.C:
		}
		var answer struct{ Status string }
		code, err := p.ask(ctx, http.MethodGet, "/status/"+url.PathEscape(id), nil, &answer)
		if err != nil {
			continue // it may be busy; the time of the document ends this
		}
		select {
		case err := <-o.ended: // it was sent meanwhile
			return err
		default:
		}
		switch {
		case code == http.StatusNotFound:
			return failed("it has lost the order")
		case answer.Status == "FAILED" || answer.Status == "TIMEOUT":
			return failed("the order is %s", answer.Status)
		}
	}
}

// extract gives the PDF file of a ZIP file, compared with the digest beside it.
func extract(root *os.Root) ([]byte, error) {
	f, err := root.Open(zipName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return nil, err
	}
	var body, line []byte
	for _, one := range z.File {
		switch name := path.Base(one.Name); {
		case strings.HasSuffix(name, ".pdf") && body == nil:
			body, err = content(one, maxPDF)
		case strings.HasSuffix(name, ".pdf.sha256"):
			line, err = content(one, maxAnswer)
		case strings.HasSuffix(name, ".pdf"):
			err = errors.New("it sent several PDF files")
		}
		if err != nil {
			return nil, err
		}
	}
	sum := sha256.Sum256(body)
	want, _, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	switch {
	case body == nil:
		return nil, errors.New("it sent no PDF file")
	case want != "" && want != hex.EncodeToString(sum[:]):
		return nil, errors.New("the PDF file is not the one of its digest")
	}
	return body, nil
}

// content reads a file of a ZIP file with at most so many bytes.
func content(f *zip.File, most int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path.Base(f.Name), most)
	}
	return text, err
}
