package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/printable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web/amount"
	"github.com/stagepost/stagepost/web/markup"
)

// functions are those of all templates.
var functions = template.FuncMap{
	"shown": printable.Shown, "time": markup.Time, "ago": amount.Ago, "span": amount.Span, "size": quantity.Size,
	"count": amount.Count, "sentence": markup.Sentence, "jobpath": JobPath, "short": markup.ShortID,
	"percent": amount.Percent, "lines": printable.Lines, "copied": markup.Copied, "plural": amount.Plural,
}

// titleOf returns what people call a job: its title, else the name of its object, else its kind and number.
func titleOf(kinds Kinds, j *job.Job) string {
	return cmp.Or(j.Title, j.Object, fmt.Sprintf("%s %d", kinds.NameOf(j.Kind).One, j.Number))
}

// JobPath is the path of the page of a job.
func JobPath(id job.ID) string { return markup.JobPath(id) }

// Tone is how a state appears: what is well, what failed, what is at work, what waits.
type Tone string

// The tones.
const (
	Good    Tone = "good"
	Bad     Tone = "bad"
	Working Tone = "working"
	Waiting Tone = "waiting"
	Held    Tone = "held"
	Quiet   Tone = "quiet"
)

// ToneOf returns how a state appears: a state that waits for what works elsewhere is at work.
func ToneOf(stage *lifecycle.Stage, o lifecycle.Outcome, ended, claimed bool) Tone {
	switch {
	case o == lifecycle.Failed || o == lifecycle.TimedOut:
		return Bad
	case ended && o == lifecycle.OK:
		return Good
	case ended:
		return Quiet
	case stage.Kind == lifecycle.Wait && !workedElsewhere(stage):
		return Held
	case claimed || stage.Kind == lifecycle.Work || stage.Kind == lifecycle.Wait:
		return Working
	}
	return Waiting
}

// workedElsewhere reports whether a worker causes events of a state that waits, such as a job of another system.
func workedElsewhere(stage *lifecycle.Stage) bool {
	return slices.ContainsFunc(stage.Transitions,
		func(t lifecycle.Transition) bool { return t.By&lifecycle.Worker != 0 })
}

// Row is a job in a list.
type Row struct {
	*job.Job
	Name  string // what people call it
	What  string // its kind in plain words
	Tone  Tone
	Since string // how long it has been in its state
	Path  string
}

// Kinds gives what a page needs about kinds of jobs.
type Kinds interface {
	NameOf(k job.Kind) server.Named
	Stage(k job.Kind, s lifecycle.State) lifecycle.Stage
}

// rowOf makes a row of a job.
func rowOf(kinds Kinds, now time.Time, j *job.Job) Row {
	stage := kinds.Stage(j.Kind, j.State)
	return Row{Job: j, Name: titleOf(kinds, j), What: kinds.NameOf(j.Kind).One, Path: JobPath(j.ID),
		Tone: ToneOf(&stage, j.Outcome, j.Ended, j.Claimed()), Since: amount.Ago(now, j.Entered)}
}

// rowsOf makes the rows of a page of jobs.
func rowsOf(kinds Kinds, now time.Time, page *api.Page) []Row {
	rows := make([]Row, len(page.Jobs))
	for i := range page.Jobs {
		rows[i] = rowOf(kinds, now, &page.Jobs[i])
	}
	return rows
}

// Stage returns the stage of a state in the lifecycle of a kind; of an unknown one, a stage without a kind.
func (p *Pages) Stage(k job.Kind, s lifecycle.State) lifecycle.Stage {
	if life := p.Life(k); life != nil {
		stage, _ := life.Stage(s)
		return stage
	}
	return lifecycle.Stage{State: s}
}

// EscapePath returns a path of names as a part of a URL: the slashes between them remain.
func EscapePath(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
