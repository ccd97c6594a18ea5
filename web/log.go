package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// logLines is how many lines the page about a log shows.
const logLines = 500

// logView is what the page shows.
type logView struct {
	ID    job.ID
	Text  string // that the lines contain
	Lines []logLine
	Read  int
	Next  string // address of what follows; empty at the end
	Begin string // address of the beginning; empty there
	Job   string
}

type logLine struct {
	api.Line
	Attrs string
	Tone  Tone
}

func (h *handlers) log(r *http.Request) (*Frame, error) {
	p := server.Params(r)
	offset, text := p.Number("offset", 0, 1<<62), p.Text("text")
	if err := p.Err(); err != nil {
		return nil, err
	}
	id := server.JobID(r)
	path := "/api/v1/jobs/" + url.PathEscape(string(id))
	var j api.Job
	if err := h.Get(r, path, &j); err != nil {
		return nil, err
	}
	var log api.Log
	v := logView{ID: id, Text: text, Job: JobPath(id)}
	for at := offset; ; at = log.Next { // a search reads on until the page is full
		log = api.Log{}
		if err := h.Get(r, fmt.Sprintf("%s/log?limit=%d&offset=%d", path, logLines, at), &log); err != nil {
			return nil, err
		}
		v.Read += len(log.Lines)
		v.Lines = append(v.Lines, linesOf(log.Lines, text)...)
		if !log.More || text == "" || len(v.Lines) >= logLines || v.Read >= 100*logLines {
			break
		}
	}
	address := func(at int64) string {
		q := url.Values{}
		if at > 0 {
			q.Set("offset", strconv.FormatInt(at, 10))
		}
		if text != "" {
			q.Set("text", text)
		}
		return With(v.Job+"/log", q)
	}
	if log.More {
		v.Next = address(log.Next)
	}
	if offset > 0 {
		v.Begin = address(0)
	}
	f := &Frame{Title: "Log", Lead: TitleOf(h.Pages, &j.Job), Up: server.Link{Title: TitleOf(h.Pages, &j.Job),
		Path: v.Job}, Body: v}
	if !j.Ended {
		f.Events = path + "/events?after=" + strconv.FormatInt(j.Seq, 10)
	}
	return f, nil
}

// linesOf selects the lines that contain a text, without regard to case.
func linesOf(lines []api.Line, text string) (all []logLine) {
	text = strings.ToLower(text)
	for _, l := range lines {
		one := logLine{Line: l, Attrs: attrsOf(string(l.Attrs)), Tone: Quiet}
		if !strings.Contains(strings.ToLower(l.Msg+" "+one.Attrs+" "+l.Level+" "+string(l.State)), text) {
			continue
		}
		switch strings.ToUpper(l.Level) {
		case "ERROR":
			one.Tone = Bad
		case "WARN":
			one.Tone = Held
		}
		all = append(all, one)
	}
	return all
}

func attrsOf(text string) string {
	if text == "{}" || text == "null" {
		return ""
	}
	return text
}

// logText is the whole log as text, one line each.
func (h *handlers) logText(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	path := fmt.Sprintf("/api/v1/jobs/%s/log?limit=10000&offset=", url.PathEscape(r.PathValue("id")))
	log := api.Log{More: true}
	for first := true; log.More; first = false {
		next := log.Next
		log = api.Log{}
		if err := h.Get(r, path+strconv.FormatInt(next, 10), &log); err != nil {
			if first {
				return err
			}
			panic(http.ErrAbortHandler) // half a log must not pass for a whole one
		}
		if first {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Content-Disposition", `attachment; filename="job.log"`)
			server.ExtendDeadline(w)
		}
		for i := range log.Lines {
			l := &log.Lines[i]
			if _, err := fmt.Fprintf(w, "%s %s %s %s\n", l.Time.UTC().Format(time.RFC3339Nano), l.Level, l.Msg,
				attrsOf(string(l.Attrs))); err != nil {
				return nil // the reader has gone
			}
		}
	}
	return nil
}

// filesView is what the page about the files of a job shows.
type filesView struct {
	api.JobFiles
	NextPage string
}

func (h *handlers) files(r *http.Request) (*Frame, error) {
	p := server.Params(r)
	after := p.Text("after")
	if err := p.Err(); err != nil {
		return nil, err
	}
	var j api.Job
	if err := h.Get(r, "/api/v1/jobs/"+url.PathEscape(r.PathValue("id")), &j); err != nil {
		return nil, err
	}
	path := h.FilesOf(&j.Job)
	if path == "" {
		return nil, job.Errorf(job.NotFound, "files", j.ID, "jobs of the kind %s have no list of files", j.Kind)
	}
	q := url.Values{"limit": {"200"}}
	if after != "" {
		q.Set("after", after)
	}
	var v filesView
	if err := h.Get(r, With(path, q), &v.JobFiles); err != nil {
		return nil, err
	}
	if v.Next != "" {
		v.NextPage = With(JobPath(j.ID)+"/files", url.Values{"after": {v.Next}})
	}
	return &Frame{Title: "Files", Lead: TitleOf(h.Pages, &j.Job), Up: server.Link{Title: TitleOf(h.Pages, &j.Job),
		Path: JobPath(j.ID)},
		Body: v}, nil
}
