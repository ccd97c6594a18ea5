package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kind is the kind of archive jobs.
const Kind job.Kind = "archive.job"

// Triggers of jobs.
const (
	TriggerManual   = "manual"
	TriggerSchedule = "schedule"
	TriggerEvent    = "event"
)

// Request asks for an archive of activities of one course. It is the spec of the job.
type Request = api.ArchiveRequest

// Settings state how a job archives. They are kept with the job and written into the package. The zero value of a field
// means that it is not set; [settings.Preset.Apply] replaces it.
type Settings = api.ArchiveSettings

// Ordered is who requests, and how.
type Ordered struct {
	Owner, Actor string
	Key          string // idempotency key; empty: none
	By           lifecycle.Actor
	Priority     *int
	Group        string
	Due          time.Time // not begun before; zero: at once
}

// Most of what a request may contain.
const (
	maxActivities = 10_000
	maxName       = 255
)

// Submit creates a job. A second request with the same key gives the job of the first one. Errors: Invalid, Refused
// where a preset locks a setting, Conflict where the key has another request, Unavailable before the engine runs.
func (a *App) Submit(ctx context.Context, r Request, o Ordered) (job.Job, error) {
	r.Preset, r.Trigger = cmp.Or(r.Preset, "default"), cmp.Or(r.Trigger, TriggerManual)
	if err := a.check(&r); err != nil {
		return job.Job{}, err
	}
	if _, err := a.settings(&r); err != nil {
		return job.Job{}, err
	}
	if a.engine == nil {
		return job.Job{}, job.Errorf(job.Unavailable, "archive", "", "the engine does not run yet")
	}
	j, err := a.engine.Submit(ctx, engine.Order{
		Kind: Kind, Owner: o.Owner, Actor: o.Actor, Key: o.Key, By: o.By, Priority: o.Priority, Group: o.Group,
		Due:  o.Due,
		Spec: r, Note: r.Note, Tags: []string{"source=" + r.Source, "course=" + r.Course},
	})
	if err != nil {
		return j, err
	}
	return j, sameRequest(&j, &r)
}

// sameRequest refuses a key that another request has.
func sameRequest(j *job.Job, r *Request) error {
	var was Request
	if err := decode(j.Spec, &was); err != nil {
		return err
	}
	was.Note = r.Note
	if hash(was) != hash(*r) {
		return job.Errorf(job.Conflict, "archive", j.ID, "the key was used for another request")
	}
	return nil
}

// hash identifies a value by its JSON.
func hash(v any) string {
	sum := sha256.Sum256(encode(v))
	return hex.EncodeToString(sum[:])
}

// check reports what is wrong with a request itself.
func (a *App) check(r *Request) error {
	bad := func(format string, args ...any) error { return job.Errorf(job.Invalid, "archive", "", format, args...) }
	switch {
	case r.Source == "":
		return bad("name a source (known: %s)", strings.Join(a.options.Sources.Names(), ", "))
	case r.Course == "" || len(r.Course) > maxName:
		return bad("name a course by its id")
	case len(r.Activities) > maxActivities:
		return bad("%d activities are too many: at most %d", len(r.Activities), maxActivities)
	case !slices.Contains([]string{TriggerManual, TriggerSchedule, TriggerEvent}, r.Trigger):
		return bad("trigger is %q: want manual, schedule or event", r.Trigger)
	}
	for _, id := range r.Activities {
		if id == "" || len(id) > maxName {
			return bad("%q is not the id of an activity", id)
		}
	}
	if _, err := a.options.Sources.Source(r.Source); err != nil {
		return err
	}
	return nil
}

// settings gives the settings that a request leads to.
func (a *App) settings(r *Request) (Settings, error) {
	p, ok := a.options.Presets(r.Preset)
	if !ok {
		return Settings{}, job.Errorf(job.Invalid, "archive", "", "there is no preset %q", r.Preset)
	}
	s, err := p.Apply(r.Settings)
	if err == nil {
		err = settings.CheckContent(&s)
	}
	switch {
	case err != nil:
	case s.Package == settings.PackageOCFL && len(a.options.Objects()) == 0:
		err = job.Errorf(job.Invalid, "archive", "", "package is %s, and no OCFL storage root is configured", s.Package)
	case s.Content.PDF != settings.PDFOff && a.options.PDF == nil:
		err = job.Errorf(job.Invalid, "archive", "", "content.pdf is %s, and no worker prints: set archive.pdf.workers",
			s.Content.PDF)
	case *s.Sign && a.options.Signer == nil:
		err = job.Errorf(job.Invalid, "archive", "", "sign is true, and no time-stamp authority is configured")
	default:
		err = a.possible(&s)
	}
	return s, err
}

// possible refuses settings that the configuration cannot fulfil: the job would fail after its work was done.
func (a *App) possible(s *Settings) error {
	if _, err := a.policy(s); err != nil {
		return err
	}
	if !*s.Sign || a.options.Authorities == nil {
		return nil
	}
	known := a.options.Authorities()
	if len(known) == 0 {
		return job.Errorf(job.Invalid, "archive", "", "sign is true, and no time-stamp authority is configured")
	}
	for _, name := range s.Authorities {
		if !slices.Contains(known, name) {
			return job.Errorf(job.Invalid, "archive", "", "there is no time-stamp authority %q (known: %s)", name,
				strings.Join(known, ", "))
		}
	}
	return nil
}

// Sources are the sources of a configuration.
type Sources interface {
	Names() []string
	// Source gives a source by its name. An unknown name is of kind Invalid.
	Source(name string) (source.Source, error)
}

// data is what steps have found out: the data of the job.
type data struct {
	Settings     Settings             `json:"settings"` // with presets applied
	Facts        source.Facts         `json:"source,omitzero"`
	Organization string               `json:"organization,omitempty"` // of the preparation: a repetition packs the same
	Course       source.Course        `json:"course,omitzero"`
	Activities   []source.Activity    `json:"activities,omitempty"`
	Skipped      []packaging.Excluded `json:"skipped,omitempty"`
	Warnings     []string             `json:"warnings,omitempty"`
	Started      time.Time            `json:"started,omitzero"`  // first PreProcessing
	Packaged     time.Time            `json:"packaged,omitzero"` // first PostProcessing
	Signed       time.Time            `json:"signed,omitzero"`   // by the authority

	Package *packaging.Package `json:"package,omitempty"`
	Remains []string           `json:"remains,omitempty"` // backups that the job started and could not delete

	Reason   *reason                 `json:"reason,omitempty"`   // why it is stopped; nil: it is not
	Failures map[lifecycle.State]int `json:"failures,omitempty"` // failed attempts of the phase
	Errors   []FailedAttempt         `json:"errors,omitempty"`   // the newest last; at most maxErrors
}

// reason is why a job is stopped.
type reason struct {
	Cause   string `json:"cause,omitempty"`
	Message string `json:"message,omitempty"`
}
