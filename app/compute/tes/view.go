package tes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Files gives the files of a job. *compute.App does.
type Files interface {
	Results(j *job.Job) (*os.File, *compute.Results, error)
	Input(j *job.Job, name string) (*os.File, error)
}

// Standing is how a job stands, or stood before its files were cleaned.
type Standing struct {
	State           lifecycle.State
	Cause, Sentence string
}

// Bounds of a view.
const (
	mostTail = 10 << 10 // bytes of what an executor wrote
	// bytes of a file up to which its end is searched for; of a longer one the beginning is shown
	mostUnpack  = 1 << 20
	mostEntries = 100_000 // of results that are read for outputs
)

// Show gives a task as a view has it. link makes a URL of the name of a file in the results.
func Show(ctx context.Context, files Files, j *job.Job, s Standing, v View, link func(name string) string) (Task,
	error) {
	if v == Minimal {
		return Task{ID: string(j.ID), State: StateOf(s.State, s.Cause)}, nil
	}
	k, _, err := read(j)
	if err != nil {
		return Task{}, err
	}
	t := k.Task
	t.ID, t.State, t.Created = string(j.ID), StateOf(s.State, s.Cause), stamp(j.Created)
	if v == Full {
		for i := range k.Contents {
			if i < len(t.Inputs) {
				if t.Inputs[i].Content, err = content(files, j, fmt.Sprintf("%s%d", inputName, i)); err != nil {
					return Task{}, err
				}
			}
		}
	}
	l := &inquiry{ctx: ctx, files: files, job: j, standing: s, task: &k.Task, full: v == Full, link: link}
	t.Logs, err = l.logs()
	return t, err
}

// content reads the content of an input back. Of a job that was cleaned there is none.
func content(files Files, j *job.Job, name string) (string, error) {
	f, err := files.Input(j, name)
	if kind := job.KindOf(err); kind == job.Gone || kind == job.NotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}

// inquiry finds out what happened to a task.
type inquiry struct {
	ctx      context.Context
	files    Files
	job      *job.Job
	standing Standing
	task     *Task
	full     bool
	link     func(string) string

	zip  *os.File // the results; nil: there are none
	size int64
}

// logs gives one log for each failed attempt to submit the job, and one for the attempt that stands.
func (l *inquiry) logs() ([]TaskLog, error) {
	d, err := compute.DataOf(l.job)
	if err != nil {
		return nil, err
	}
	var all []TaskLog
	for _, a := range d.Attempts {
		if a.Error == "" {
			continue
		}
		one := TaskLog{Logs: []ExecutorLog{}, Outputs: []OutputLog{}, Start: a.At, End: a.At,
			Metadata: metadata("agent", a.Agent)}
		if l.full {
			one.SystemLogs = []string{a.Error}
		}
		all = append(all, one)
	}
	if d.Attempt == 0 && !l.job.Ended {
		return all, nil
	}
	now := TaskLog{Logs: []ExecutorLog{}, Outputs: []OutputLog{},
		Metadata: metadata("agent", d.Agent, "service", l.job.Group, "attempt", strconv.FormatInt(d.Attempt, 10))}
	if n := d.Notice; n != nil {
		now.Start, now.End = stamp(n.Started), stamp(n.Finished)
		if n.Place != "" {
			now.Metadata["host"] = n.Place
		}
	}
	if l.job.Ended && now.End == "" && l.job.State != compute.Cleaned {
		now.End = stamp(l.job.Entered)
	}
	if err := l.results(&now, &d); err != nil {
		return nil, err
	}
	if l.full {
		now.SystemLogs = append(l.system(&d), now.SystemLogs...)
	} else {
		now.SystemLogs = nil
	}
	return append(all, now), nil
}

func metadata(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			m[pairs[i]] = pairs[i+1]
		}
	}
	return m
}

// system lists what is known of how it stands, beside what its executors report.
func (l *inquiry) system(d *compute.Data) []string {
	var all []string
	if l.standing.Cause != "" {
		all = append(all, "cause: "+l.standing.Cause)
	}
	if l.standing.Sentence != "" {
		all = append(all, l.standing.Sentence)
	}
	if n := d.Notice; n != nil && n.Reason != "" {
		all = append(all, n.Reason)
	}
	if d.Results != nil && d.Results.Sentence != "" {
		all = append(all, d.Results.Sentence)
	}
	return all
}

// results adds what the results have: the executors and the outputs.
func (l *inquiry) results(log *TaskLog, d *compute.Data) error {
	f, about, err := l.files.Results(l.job)
	switch kind := job.KindOf(err); {
	case err == nil:
		defer f.Close()
		l.zip, l.size = f, about.Bytes
	case kind != job.NotFound && kind != job.Gone:
		return err
	}
	if log.Logs = l.executors(); l.zip != nil {
		if err := l.outputs(log); err != nil {
			return err
		}
	}
	n := len(log.Logs)
	switch e := ending(d); {
	case e == nil || e.Started.IsZero() && d.Notice.Started.IsZero(): // nothing of it ran
	case e.Cause != "" && l.open(log.Logs): // it was ended while this one ran
		one := ExecutorLog{Exit: e.Exit, End: stamp(e.Finished)}
		l.wrote(&one, n)
		log.Logs = append(log.Logs, one)
	case n == 0 && len(l.task.Executors) == 1: // its files are gone
		log.Logs = append(log.Logs, ExecutorLog{Exit: e.Exit, Start: stamp(e.Started), End: stamp(e.Finished)})
	}
	return nil
}

// open reports whether another executor was to run after those that noted their end.
func (l *inquiry) open(logs []ExecutorLog) bool {
	n := len(logs)
	return n == 0 || n < len(l.task.Executors) && (logs[n-1].Exit == 0 || l.task.Executors[n-1].IgnoreError)
}

func ending(d *compute.Data) *compute.Ending {
	if d.Notice == nil {
		return nil
	}
	return d.Notice.Ending
}

// executors reads what run.sh noted. The job may have written anything there: what is no line of run.sh is left out.
func (l *inquiry) executors() []ExecutorLog {
	logs := []ExecutorLog{}
	for line := range strings.SplitSeq(l.text(logName+"/executors", 64<<10), "\n") {
		var n int
		var one ExecutorLog
		if _, err := fmt.Sscanf(line, "%d %d %s %s", &n, &one.Exit, &one.Start, &one.End); err != nil ||
			n != len(logs) || n >= len(l.task.Executors) {
			continue
		}
		if !isTime(one.Start) || !isTime(one.End) {
			continue
		}
		l.wrote(&one, n)
		logs = append(logs, one)
	}
	return logs
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

// wrote adds what an executor wrote.
func (l *inquiry) wrote(log *ExecutorLog, n int) {
	if !l.full || n >= len(l.task.Executors) {
		return
	}
	e := &l.task.Executors[n]
	log.Stdout, log.Stderr = l.text(l.streamFile(n, e.Stdout, "stdout"), mostTail), l.text(l.streamFile(n, e.Stderr,
		"stderr"),
		mostTail)
}

// streamFile is where in the results a stream of an executor is, as target wrote it there.
func (l *inquiry) streamFile(n int, name, stream string) string {
	switch {
	case name != "":
		return rootName + path.Clean(name)
	case len(l.task.Executors) > 1:
		return fmt.Sprintf("%s/%d.%s", logName, n, stream)
	}
	return stream
}

// text gives the end of a file in the results, or the beginning of a very long one; "" if it cannot be had.
func (l *inquiry) text(name string, most int) string {
	if l.zip == nil {
		return ""
	}
	r, length, err := collect.Entry(l.ctx, l.zip, l.size, name)
	if err != nil {
		return ""
	}
	defer r.Close()
	if skip := length - int64(most); skip > 0 && length <= mostUnpack {
		if _, err := io.CopyN(io.Discard, r, skip); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(most)))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// outputs finds the outputs of the task among the results.
func (l *inquiry) outputs(log *TaskLog) error {
	if len(l.task.Outputs) == 0 {
		return nil
	}
	all, more, err := collect.Entries(l.ctx, l.zip, l.size, mostEntries)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return job.Errorf(job.Internal, "tes", l.job.ID, "its results cannot be read: %w", err)
	}
	if more {
		log.SystemLogs = append(log.SystemLogs,
			fmt.Sprintf("its results have more than %d files: outputs behind these are not listed", mostEntries))
	}
	for i := range l.task.Outputs {
		o, found := &l.task.Outputs[i], false
		for _, f := range all {
			name, ok := strings.CutPrefix(f.Name, rootName+"/")
			if ok && f.Mode.IsRegular() && o.names("/"+name) {
				found = true
				at := l.link(f.Name)
				if o.URL != "" {
					at = o.target("/" + name)
				}
				log.Outputs = append(log.Outputs, OutputLog{URL: at, Path: "/" + name,
					Size: strconv.FormatInt(f.Size, 10)})
			}
		}
		if !found && o.Type != TypeDirectory {
			log.SystemLogs = append(log.SystemLogs, fmt.Sprintf("the output %s was not made", o.Path))
		}
	}
	return nil
}

// names reports whether a file is what an output means.
func (o *Output) names(name string) bool {
	want := path.Clean(o.Path)
	if o.PathPrefix != "" {
		for at := name; at != "/"; at = path.Dir(at) {
			if ok, _ := path.Match(want, at); ok && (at == name || o.Type == TypeDirectory) {
				return true
			}
		}
		return false
	}
	return name == want && o.Type != TypeDirectory || o.Type == TypeDirectory && strings.HasPrefix(name, want+"/")
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
