package archiveserve

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	archiveconfig "github.com/stagepost/stagepost/app/archive/config"
	"github.com/stagepost/stagepost/app/archive/quizworker"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/internal/build"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/listen"
)

// quizName is the directory of orders of Moodles, below that of the application.
const quizName = "quiz"

// sitePath is the path of the Moodle that existing quiz archive workers see.
const sitePath = "/moodle"

// quiz is this server as the quiz archive worker of Moodles.
type quiz struct {
	*quizworker.App
	client *fetch.Client
}

// openQuiz opens the worker; nil: no address is set.
func openQuiz(dir string, c *archiveconfig.Config, s *Settings, p *printers, log *slog.Logger) (*quiz, error) {
	if s.QuizListen == "" && len(c.Printers) > 0 {
		return nil, cli.Usagef("archive.quizworker.listen: set it: the printers of archive.yaml fetch documents " +
			"there")
	}
	if s.QuizListen == "" {
		return nil, nil
	}
	q := cmp.Or(c.QuizWorker, &archiveconfig.QuizWorker{})
	switch {
	case !p.prints(s):
		return nil, cli.Usagef("archive.quizworker.listen: nothing prints the reports: set archive.pdf.workers or " +
			"archive.pdf.remote, or add printers to archive.yaml")
	case len(q.TokenFiles) == 0 && len(c.Printers) == 0 && !listen.Loopback(s.QuizListen):
		return nil, cli.Usagef("archive.quizworker.listen: beyond loopback a Moodle needs a token: add quiz_worker " +
			"with token_files to archive.yaml")
	}
	tokens, err := q.Tokens()
	if err != nil {
		return nil, cli.Usage(err)
	}
	client := fetch.New(fetch.Policy{Allow: q.Networks(), HeaderTimeout: time.Hour, Log: log})
	app, err := quizworker.New(quizworker.Options{
		Dir: filepath.Join(dir, quizName), Transport: client.Transport(), Printer: p.App, Tokens: tokens,
		Moodles: q.Moodles, Version: build.Version(), Jobs: q.Parallel, Queue: q.Queue, Timeout: q.Timeout.Duration,
	})
	if err != nil {
		client.Close()
		return nil, err
	}
	return &quiz{app, client}, nil
}

// admit takes who may order from a configuration that was read again.
func (q *quiz) admit(c *archiveconfig.Config) error {
	s := cmp.Or(c.QuizWorker, &archiveconfig.QuizWorker{})
	tokens, err := s.Tokens()
	if err == nil {
		q.Admit(tokens, s.Moodles)
	}
	return err
}

// Close closes the connections and the directory.
func (q *quiz) Close() error {
	q.client.Close()
	return q.App.Close()
}

// Load is part of [module.Loader].
func (a *App) Load(ctx context.Context) error {
	if a.quiz == nil {
		return nil
	}
	return a.quiz.Sweep(ctx)
}

// Listen is part of [module.Listener]: the address of the quiz archive worker.
func (a *App) Listen(ctx context.Context, sv *server.Server) (*module.Endpoint, error) {
	if a.quiz == nil {
		return nil, nil
	}
	l, err := a.h.Listen(ctx, "archive.quizworker.listen", a.listen)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux() // of which each part checks its own tokens
	mux.Handle(sitePath+"/", http.StripPrefix(sitePath, a.printers.callback.Handler(sv.Refused)))
	mux.Handle("/", a.quiz.Handler(sv.Refused))
	sender := func(r *http.Request) string { return cmp.Or(a.quiz.Sender(r), a.printers.callback.Sender(r)) }
	return &module.Endpoint{Name: "quizworker", Title: "quiz archive worker", Listener: l, Server: &http.Server{
		Handler: sv.UnderLimits(mux, sender), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Hour,
		IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
	}}, nil
}
