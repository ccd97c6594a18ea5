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

// logView is what a page shows of a log.
type logView struct {
	Text  string // that the lines contain
	Tail  int64  // only so many of the last lines; 0: a page of all
	Lines []logLine
	Read  int
	Size  int64  // of the log, as far as it was read
	More  bool   // there are lines behind those that were read
	Next  string // address of what follows; empty at the end
	Begin string // address of the beginning; empty there
	Job   string
	Alone bool   // the page has nothing else
	Here  string // address of these lines
	Form  string // address of the page that shows those with a text
}

type logLine struct {
	api.Line
	Attrs string
	Tone  Tone
}

func (h *handlers) log(r *http.Request) (*Frame, error) {
	p := server.Params(r)
	offset, text, tail := p.Number("offset", 0, 1<<62), p.Text("text"), p.Number("tail", 1, logLines)
	if err := p.Err(); err != nil {
		return nil, err
	}
	id := server.JobID(r)
	path := "/api/v1/jobs/" + url.PathEscape(string(id))
	var j api.Job
	if err := h.Get(r, path, &j); err != nil {
		return nil, err
	}
	v, err := h.readLog(r, id, offset, text, tail)
	if err != nil {
		return nil, err
	}
	v.Alone = true
	f := &Frame{Title: "Log", Lead: titleOf(h.Pages, &j.Job), Up: server.Link{Title: titleOf(h.Pages, &j.Job),
		Path: v.Job}, Body: v}
	if !j.Ended {
		f.Events = eventsOf(&j.Job, &v)
	}
	return f, nil
}

// eventsOf is the stream of the changes of a job and of its log, as far as it was not read.
func eventsOf(j *job.Job, log *logView) string {
	return fmt.Sprintf("/api/v1/jobs/%s/events?after=%d&offset=%d", url.PathEscape(string(j.ID)), j.Seq, log.Size)
}

// readLog reads the lines of a log that contain a text, from an offset on until a page is full, or the last ones.
func (h *handlers) readLog(r *http.Request, id job.ID, offset int64, text string, tail int64) (logView, error) {
	v := logView{Text: text, Tail: tail, Job: JobPath(id), Form: JobPath(id) + "/log"}
	address := func(at int64) string {
		q := url.Values{}
		for name, n := range map[string]int64{"offset": at, "tail": tail} {
			if n > 0 {
				q.Set(name, strconv.FormatInt(n, 10))
			}
		}
		if text != "" {
			q.Set("text", text)
		}
		return With(v.Job+"/log", q)
	}
	v.Here = address(offset)
	path := "/api/v1/jobs/" + url.PathEscape(string(id)) + "/log?"
	for at := offset; ; at = v.Size { // a search reads on
		query := fmt.Sprintf("limit=%d&offset=%d", logLines, at)
		if tail > 0 && text == "" {
			query = fmt.Sprintf("tail=%d", tail)
		}
		var log api.Log
		if err := h.Get(r, path+query, &log); err != nil {
			return v, err
		}
		v.Read, v.Size, v.More = v.Read+len(log.Lines), log.Next, log.More
		v.Lines = append(v.Lines, linesOf(log.Lines, text)...)
		if tail > 0 {
			v.Lines = v.Lines[max(0, len(v.Lines)-int(tail)):]
		}
		if !log.More || text == "" || tail == 0 && len(v.Lines) >= logLines || v.Read >= 100*logLines {
			break
		}
	}
	if v.More && tail == 0 {
		v.Next = address(v.Size)
	}
	if offset > 0 {
		v.Begin = address(0)
	}
	return v, nil
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
	return &Frame{Title: "Files", Lead: titleOf(h.Pages, &j.Job), Up: server.Link{Title: titleOf(h.Pages, &j.Job),
		Path: JobPath(j.ID)},
		Body: v}, nil
}
