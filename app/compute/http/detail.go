package computehttp

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

// Bounds of what the page about a job shows.
const (
	shownFiles  = 100      // files
	shownOutput = 32 << 10 // bytes of the end of the output
	readOutput  = 16 << 20 // bytes of the output that are read to find its end
	outputTime  = 5 * time.Second
)

// detailView is what compute adds to the page about a job.
type detailView struct {
	api.ComputeJob
	Rows    []fact
	Outputs []outputView
	Follow  bool // the job may write more
	List    []fileRow
	More    bool   // it has more files
	Removed string // why there are no files
	Partial bool   // what it has made so far can be downloaded
	Acts    bool   // the reader may do something about it
	Again   bool   // the reader may run it again
	Kept    bool   // its files are here
	Cleans  bool   // there are files that the reader may remove
	Reads   bool   // the reader may download files
	Key     string // of the job that runs it again
}

type fact struct{ Name, Value string }

// outputView is the end of a stream.
type outputView struct {
	Stream, Title string
	Text          string
	Offset        int64 // behind the text
	Cut           bool  // the text is not the whole
	Path          string
}

type fileRow struct {
	api.ComputeFile
	Path string
}

// details shows the output, the results and the inputs of a job.
func (s *Handlers) details(r *http.Request, j *api.Job) (d server.Details, err error) {
	if s.Compute == nil {
		return d, nil
	}
	path := computePath(j.ID)
	var v detailView
	if err := s.pages.Get(r, path, &v.ComputeJob); err != nil {
		return d, err
	}
	v.Rows, v.Follow, v.Partial = factsOf(&v.ComputeJob), !j.Ended, !j.Ended && !v.Started.IsZero()
	v.Key, v.Acts = rand.Text(), j.Ended && s.Permits(r, http.MethodPost, "/api/v1/compute/jobs/{id}/retry")
	v.Kept = j.State != compute.Cleaned
	v.Cleans = v.Acts && v.Kept && s.PermitsFor(r, http.MethodPost, "/api/v1/compute/jobs/{id}/clean", j.Owner)
	v.Reads = s.PermitsFor(r, http.MethodGet, "/api/v1/compute/jobs/{id}/results", j.Owner)
	if record, err := s.Store.Get(r.Context(), j.ID); err == nil {
		v.Again = v.Acts && s.Compute.Repeatable(&record) == nil
	}
	var files api.ComputeFiles
	switch err := s.pages.Get(r, path+"/files?limit=100", &files); job.KindOf(err) {
	case "":
	case job.Gone, job.Refused, job.Unavailable:
		v.Removed = job.Reason(err)
	default:
		return d, err
	}
	for _, f := range files.Files {
		v.List = append(v.List, fileRow{f, path + "/files/" + web.EscapePath(f.Name) + "?from=" + f.From})
	}
	v.More = files.Next != ""
	if v.Removed == "" {
		record, err := s.Store.Get(r.Context(), j.ID) // the one of the API lacks the secret of its agent
		if err != nil {
			return d, err
		}
		for _, of := range []outputView{{Stream: api.Stdout, Title: "Output"}, {Stream: api.Stderr,
			Title: "Error output"}} {
			of.Path = path + "/logs?stream=" + of.Stream
			if s.readEnd(r.Context(), &record, &of); of.Text != "" || v.Follow {
				v.Outputs = append(v.Outputs, of)
			}
		}
	}
	d.HTML, err = s.pages.Fragment("detail.html", v)
	if v.Follow {
		d.Scripts = []string{"/assets/compute.js"}
	}
	return d, err
}

// readEnd reads the end of a stream. What does not come in time is left to the script, or to the next time that the
// page is opened.
func (s *Handlers) readEnd(ctx context.Context, j *job.Job, of *outputView) {
	ctx, cancel := context.WithTimeout(ctx, outputTime)
	defer cancel()
	body, err := s.Compute.Log(ctx, j, of.Stream, 0, false)
	if err != nil {
		return // there is none yet, or its agent does not answer: the state of the job reports it
	}
	defer context.AfterFunc(ctx, func() { _ = body.Close() })()
	defer body.Close()
	var end tail
	n, _ := io.Copy(&end, io.LimitReader(body, readOutput))
	of.Offset, of.Cut = n, n > shownOutput
	text := end.text()
	if of.Cut {
		for len(text) > 0 && !utf8.RuneStart(text[0]) {
			text = text[1:]
		}
		if _, lines, ok := bytes.Cut(text, []byte("\n")); ok && len(lines) > 0 {
			text = lines
		}
	}
	whole := wholeText(text)
	of.Offset -= int64(len(text) - whole)
	of.Text = string(bytes.ToValidUTF8(text[:whole], []byte("\ufffd")))
}

// tail keeps the last bytes that are written to it.
type tail struct{ kept []byte }

// Write is part of io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*shownOutput {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-shownOutput:]...)
	}
	return len(b), nil
}

func (t *tail) text() []byte { return t.kept[max(0, len(t.kept)-shownOutput):] }

// factsOf states what is known of a job, in words.
func factsOf(v *api.ComputeJob) (all []fact) {
	add := func(name, value string) {
		if value != "" {
			all = append(all, fact{name, value})
		}
	}
	add("Service", v.Service)
	if e := v.Ending; e != nil {
		add("How it ended", e.Sentence)
		add("To know", e.Note)
		took := quantity.FormatDuration((time.Duration(e.WallMS) * time.Millisecond).Round(time.Millisecond))
		cpu := quantity.FormatDuration((time.Duration(e.CPUMS) * time.Millisecond).Round(time.Millisecond))
		add("It used", took+", "+cpu+" of processor time, "+quantity.Size(e.Memory)+" of memory, "+
			quantity.Size(e.Disk)+" of disk")
	}
	add("It waits for", v.Waits)
	if v.Agent != "" {
		where := v.Agent
		if v.Place != "" && v.Place != v.Agent {
			where += ", " + v.Place
		}
		name := "Where it runs"
		if v.Ended {
			name = "Where it ran"
		}
		add(name, where)
	}
	if v.Limits != nil {
		add("Limits", limitWords(v.Limits))
	}
	add("It requires", strings.Join(v.Requires, ", "))
	for _, a := range v.Attempts {
		add("Attempt to hand it over", a.Agent+": "+a.Error)
	}
	return all
}
