package archivehttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive"
	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	archivehttp "github.com/stagepost/stagepost/app/archive/http"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/directory"
	"github.com/stagepost/stagepost/app/archive/trigger"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/web"
)

// sources have one directory with the courses maps and notes.
type sources struct{ of *disk }

// disk is a directory that can be made unreadable.
type disk struct {
	*directory.Source
	down atomic.Bool
}

func (d *disk) Courses(ctx context.Context, ids []string) ([]source.Course, error) {
	if d.down.Load() {
		return nil, &source.Error{Op: "courses", Err: errors.New("connection refused"), Transient: true}
	}
	return d.Source.Courses(ctx, ids)
}

func (s sources) Names() []string { return []string{"disk"} }

func (s sources) Source(name string) (source.Source, error) {
	if name != "disk" {
		return nil, job.Errorf(job.Invalid, "archive", "", "there is no source %q (known: disk)", name)
	}
	return s.of, nil
}

// harness is a server with archives, whose files lie in directories.
type harness struct {
	*servertest.Harness
	catalog *catalog.Catalog
	copies  *copies.Store
	pdfs    *pdf.App
	disk    *disk
	dir     string
	part    servertest.PartOf // the routes of its archives, for another server
}

// options are those of an application with two locations and without a time-stamp authority.
func options(t *testing.T) archive.Options {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"maps/a.txt": "A", "maps/b.txt": "B", "notes/c.txt": "C"} {
		at := filepath.Join(dir, "root", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o750), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	from, err := directory.Open(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(t.Context(), filepath.Join(dir, catalog.Name), catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(from.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	var targets []copies.Target
	for _, name := range []string{"near", "far"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o750); err != nil {
			t.Fatal(err)
		}
		at, err := storage.OpenDir(filepath.Join(dir, name), storage.Local)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, copies.Target{Name: name, At: at})
	}
	s, err := copies.New(copies.Options{Catalog: c, Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	no := false
	return archive.Options{
		Dir: dir, Sources: sources{&disk{Source: from}}, Catalog: c, Copies: s, Version: "1",
		Presets: func(name string) (settings.Preset, bool) {
			return settings.Preset{Settings: archive.Settings{Sign: &no}}, name == "default"
		},
		Describe: func(name string) packaging.Location { return packaging.Location{Name: name, Kind: "directory"} },
	}
}

// application is an application that accepts events.
type application struct {
	*archive.App
	events *trigger.App // nil: it has no receivers
	pdfs   archivehttp.Printing
}

func (a *application) Printing() archivehttp.Printing { return a.pdfs }

// printing gives jobs that print PDF files.
func printing(t *testing.T) *pdf.App {
	t.Helper()
	a, err := pdf.Open(filepath.Join(t.TempDir(), "pdf"), pdf.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func (a *application) Receive(ctx context.Context, name string, h http.Header, body io.Reader) (job.Job, error) {
	if a.events == nil {
		return job.Job{}, job.Errorf(job.NotFound, "event", "", "there are no receivers")
	}
	return a.events.Receive(ctx, name, h, body)
}

func (a *application) Schedules(ctx context.Context) ([]trigger.Status, error) {
	if a.events == nil {
		return nil, nil
	}
	return a.events.Statuses(ctx)
}

func (a *application) StartSchedule(ctx context.Context, name string, r api.StartSchedule) (job.Job, error) {
	if a.events == nil {
		return job.Job{}, job.Errorf(job.NotFound, "schedule", "", "there are no schedules")
	}
	return a.events.Start(ctx, name, r)
}

// part gives the routes of archives to a server whose engine does not run them.
func part(t *testing.T) servertest.PartOf {
	return func(w *servertest.Harness) server.Part {
		app, err := archive.New(options(t))
		if err != nil {
			t.Fatal(err)
		}
		app.Bind(w.Engine)
		pdfs := printing(t)
		pdfs.Bind(w.Engine)
		return archivehttp.Part(w.Server, &application{App: app, pdfs: pdfs})
	}
}

// open starts a server that archives.
func open(t *testing.T) *harness {
	t.Helper()
	o := options(t)
	o.Webhooks = func() map[string]*notify.Webhook { // its notifications are abandoned: it has no secret
		return map[string]*notify.Webhook{"lms": {URL: "http://lms.example", SecretFile: filepath.Join(o.Dir, "none")}}
	}
	app, err := archive.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{catalog: o.Catalog, copies: o.Copies, disk: o.Sources.(sources).of, dir: o.Dir}
	events, err := trigger.New(trigger.Options{
		Schedules: func() map[string]trigger.Schedule {
			return map[string]trigger.Schedule{
				"nightly": {Source: "disk", Cron: "30 2 * * *", TimeZone: "UTC"},
				"off":     {Source: "disk", Cron: "30 3 * * *", TimeZone: "UTC", Paused: true},
			}
		},
		Receivers: func() map[string]*trigger.Receiver {
			secret := filepath.Join(o.Dir, "secret")
			return map[string]*trigger.Receiver{
				"exams": {Source: "disk", SecretFile: secret},
				"few":   {Source: "disk", SecretFile: secret, MostPerMinute: 1},
			}
		},
		Sources: o.Sources, Catalog: o.Catalog, Jobs: app,
	})
	if err != nil {
		t.Fatal(err)
	}
	pdfs := printing(t)
	works := slices.Concat(app.Works(), events.Works(), pdfs.Works(),
		[]engine.Work{{Life: servertest.Letter, Prefix: "let", Outside: true}})
	e, err := engine.New(mem.New(), works, engine.Options{Deliver: app.Deliver()})
	if err != nil {
		t.Fatal(err)
	}
	app.Bind(e)
	events.Bind(e)
	pdfs.Bind(e)
	h.pdfs = pdfs
	h.part = func(w *servertest.Harness) server.Part {
		return archivehttp.Part(w.Server, &application{app, events, pdfs})
	}
	h.Harness = servertest.Serve(t, server.Options{Engine: e},
		func(w *servertest.Harness) server.Part { return web.Part(w.Server) }, h.part)
	h.Run()
	return h
}

// archive archives a course and waits for the end.
func (h *harness) archive(o client.ArchiveOrder) job.Job {
	h.T.Helper()
	o.Source = "disk"
	j, err := h.Client.SubmitArchive(h.T.Context(), o)
	if err != nil {
		h.T.Fatal(err)
	}
	ended, err := h.Await(h.T.Context(), j.ID, func(j *job.Job) bool { return j.Ended })
	if err != nil || ended.State != archive.Completed {
		h.T.Fatalf("it is %s: %s, %v", ended.State, ended.Message, err)
	}
	return ended
}

// person enters an archive with data of a person into the catalog.
func (h *harness) person() {
	h.T.Helper()
	ctx, c, day := h.T.Context(), h.catalog, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := errors.Join(
		c.Begin(ctx, catalog.Archive{Job: "arc_0", Source: "disk", Course: "maps", Created: day}),
		c.PutPeople(ctx, "arc_0", []catalog.Person{{ID: "19", Name: "Ann Example", Email: "ann@example.org"}},
			[]catalog.Content{{Activity: "1", Person: "19", Kind: "file", Path: "a.txt"}}),
		c.End(ctx, "arc_0", catalog.Complete, day),
	); err != nil {
		h.T.Fatal(err)
	}
}
