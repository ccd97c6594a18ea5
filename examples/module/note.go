package main

import (
	"context"
	"embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/backup"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
)

// life is the lifecycle of a note: it waits, is written to a file, and can be deleted.
var life = lc.Must("note",
	lc.OnQueue("Waiting", "The note waits for a worker.",
		lc.OnPass("start", "Writing", lc.Worker, "A worker writes it."),
		lc.OnFail("fail", "Failed", lc.Worker|lc.Timer, "It cannot be written.")),
	lc.OnWork("Writing", "A worker writes the note to a file.",
		lc.OnPass("finish", "Written", lc.Worker, "The file is there."),
		lc.OnFail("fail", "Failed", lc.Worker|lc.Timer, "It cannot be written.")),
	lc.OnEnd("Written", lc.OK, "The note is in a file."),
	lc.OnEnd("Failed", lc.Failed, "The note is not written; the message has the reason.",
		lc.OnReenter("retry", lc.Operator|lc.Owner, "It is written again.", "Waiting", "Writing")),
)

// settings are the settings of notes.
type settings struct {
	Greeting string `name:"note.greeting" for:"serve" default:"Hello" doc:"the first line of every note"`
}

// order is what a note needs: the body of POST /api/v1/notes and the specification of its job.
type order struct {
	Text string `json:"text"`
}

// app is the application in a server.
type app struct {
	settings *settings
	dir      string // of the files
	written  prometheus.Counter
	engine   *engine.Engine
}

// notes is the module.
func notes() module.Module {
	s := &settings{}
	return module.Module{
		Name: "note", Lives: []*lc.Table{life}, Settings: s, Commands: []func(*cli.Call) cli.Part{commands}, Part: part,
		Open: func(h *module.Host) (module.App, error) { return open(h, s) },
		Data: []backup.Entry{{Name: "notes", How: backup.Linked, What: "the files of notes"}},
	}
}

// open opens the application.
func open(h *module.Host, s *settings) (*app, error) {
	a := &app{settings: s, dir: filepath.Join(h.Dir, "notes"), written: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "stagepost_note_written_total", Help: "Notes that were written to files.",
	})}
	h.Metrics.Register(a.written)
	return a, os.MkdirAll(a.dir, 0o700)
}

// Works is the work of notes: one step for each state that has a worker.
func (a *app) Works() []engine.Work {
	return []engine.Work{{Life: life, Prefix: "not", Steps: map[lc.State]engine.Step{
		"Waiting": func(context.Context, *engine.Run) error { return nil }, "Writing": a.write,
	}}}
}

// write is the step of the state Writing. It may be repeated: it replaces the file.
func (a *app) write(_ context.Context, r *engine.Run) error {
	var o order
	if err := r.Spec(&o); err != nil {
		return engine.Fail("note", err)
	}
	name := filepath.Join(a.dir, string(r.Job().ID)+".txt")
	if err := os.WriteFile(name, []byte(a.settings.Greeting+"\n"+o.Text+"\n"), 0o600); err != nil {
		return err
	}
	a.written.Inc()
	return nil
}

// Deliver, Bind and Close are part of module.App.
func (a *app) Deliver() map[string]engine.Deliver { return nil }
func (a *app) Bind(e *engine.Engine)              { a.engine = e }
func (a *app) Close() error                       { return nil }

//go:embed pages
var pages embed.FS

var templates = server.Templates(pages)

// part gives the route and the page. a is nil where the routes are only listed.
func part(s *server.Server, opened module.App) server.Part {
	a, _ := opened.(*app)
	return server.Part{Routes: []server.Route{
		{
			Method: http.MethodPost, Pattern: "/api/v1/notes", Who: server.Person, Doc: "Writes a note.",
			NoReason: server.NewWork,
			IO:       openapi.IO{In: order{}, Out: api.Job{}, Status: http.StatusCreated},
			Handle: func(w http.ResponseWriter, r *http.Request) error {
				o, err := server.Decode[order](r, true)
				if err != nil {
					return err
				}
				j, err := a.engine.Submit(r.Context(), engine.Order{Kind: "note", Spec: o,
					Owner: server.OwnerFor(r.Context(), "")})
				if err != nil {
					return err
				}
				return server.ReplyJob(w, r, http.StatusCreated, j.Version, s.View(j))
			},
		},
		{
			Method: http.MethodGet, Pattern: "/notes", Who: server.Operator, Doc: "A page with the newest notes.",
			IO: openapi.IO{Media: openapi.HTML},
			Handle: func(w http.ResponseWriter, r *http.Request) error {
				all, err := a.engine.Store().List(r.Context(), job.Query{Kinds: []job.Kind{"note"}, Limit: 50})
				if err != nil {
					return err
				}
				return server.ReplyPage(w, http.StatusOK, templates, "notes.html", all.Jobs)
			},
		},
	}}
}

// commands adds the command.
func commands(c *cli.Call) cli.Part {
	return cli.Part{Groups: []*cobra.Command{cli.Group("note", "Write notes", "",
		"  stagepost note write 'the disks are in'", &cobra.Command{
			Use: "write TEXT", Short: "Write a note", Example: "  stagepost note write 'the disks are in'",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				server, err := c.API()
				if err != nil {
					return err
				}
				j, err := client.Send[api.Job](cmd.Context(), server, http.MethodPost, "/api/v1/notes", nil,
					order{args[0]})
				if err == nil {
					_, err = fmt.Fprintln(c.Out, j.ID)
				}
				return err
			},
		})}}
}
