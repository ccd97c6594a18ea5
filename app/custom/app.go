package custom

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Options of the application.
type Options struct {
	Dir     string  // where added lifecycles are kept
	Files   string  // a directory of lifecycles that the operator keeps; empty: none
	Temp    string  // where directories of commands are made
	Sandbox Sandbox // nil: this process runs no commands
	Remote  bool    // remote workers may run commands; without it and a sandbox, lifecycles with commands are refused

	Transport    http.RoundTripper // of webhooks; defaults to one that checks no addresses
	Installation string            // its id, for the source of the events of webhooks; defaults to none

	Log *slog.Logger // of what cannot be followed; defaults to none

	// Report reads the report of a command, as the server reads that of a remote worker.
	Report func(text []byte, id job.ID, epoch int64) (remote.Report, error)
}

// App is the application.
type App struct {
	options Options
	engine  *engine.Engine

	stop      context.CancelFunc
	following sync.WaitGroup

	mu    sync.Mutex // guards the rest
	files map[string]*File
	seen  string    // the files of Options.Dir when they were read
	fault error     // why not all of them could be followed
	again time.Time // when that is tried again
}

// New makes the application.
func New(o Options) *App {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &App{options: o, stop: func() {}, files: map[string]*File{}}
}

// Works returns no kinds: they are registered by Load and Add.
func (a *App) Works() []engine.Work { return nil }

// Deliver returns the topic of the outbox that the application delivers.
func (a *App) Deliver() map[string]engine.Deliver { return map[string]engine.Deliver{Topic: a.notify} }

// Receivers is part of module.Receiving: webhooks of different lifecycles may have one name.
func (a *App) Receivers() map[string]engine.Receiver {
	to := engine.ReceiverIn("to")
	return map[string]engine.Receiver{Topic: func(m job.Message) string {
		prefix, _, _ := strings.Cut(string(m.Job), "_")
		return prefix + "/" + to(m)
	}}
}

// Bind connects the application to the engine of its jobs. It is called once, before Load. Where servers share the
// store, it follows what the others add and remove until Close.
func (a *App) Bind(e *engine.Engine) {
	a.engine = e
	if !e.Store().Properties().Exclusive {
		ctx, stop := context.WithCancel(context.Background())
		a.stop = stop
		a.following.Go(func() { a.follow(ctx) })
	}
}

// Close ends the background work.
func (a *App) Close() error {
	a.stop()
	a.following.Wait()
	return nil
}

// Load registers the lifecycles of both directories. The error names every file that is refused; the others are
// registered.
func (a *App) Load(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var mistakes []error
	for _, dir := range []string{a.options.Files, a.options.Dir} {
		paths, err := yamlFiles(dir)
		if err != nil && dir == a.options.Files {
			err = fmt.Errorf("lifecycle.dir: %w", err)
		}
		mistakes = append(mistakes, err)
		for _, path := range paths {
			if err := a.load(ctx, path); err != nil {
				mistakes = append(mistakes, located(path, err))
			}
		}
	}
	return errors.Join(mistakes...)
}

// located puts the name of a file in front of each of its mistakes.
func located(path string, err error) error {
	text := path + ":" + strings.ReplaceAll(err.Error(), "\n", "\n"+path+":")
	return job.Errorf(job.Invalid, "lifecycle", "", "%s", text)
}

// Reload registers the lifecycles of the directories again: new files are added, and changed ones replace what they
// were.
func (a *App) Reload() error { return a.Load(context.Background()) }

// yamlFiles lists the files of a directory; there may be none.
func yamlFiles(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var paths []string
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && (filepath.Ext(name) == ".yaml" ||
			filepath.Ext(name) == ".yml") {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, err
}

func (a *App) load(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := Parse(path, text)
	if err != nil {
		return err
	}
	f.path = path
	switch other := a.files[f.Table.Name()]; {
	case other == nil:
	case other.path != path:
		return job.Errorf(job.Invalid, "lifecycle", "", " the lifecycle %s is also in %s", f.Table.Name(), other.path)
	case bytes.Equal(other.text, f.text):
		return nil // it is registered
	}
	return a.register(ctx, f)
}

// Add registers a lifecycle and keeps it. It replaces one that was added before, unless jobs are open and the states or
// transitions have changed. Errors: Invalid, with all mistakes and their lines; Refused.
func (a *App) Add(ctx context.Context, text []byte, actor, note string) (*lifecycle.Table, error) {
	f, err := Parse("", text)
	if err != nil {
		return nil, &job.Error{Op: "lifecycle", Kind: job.Invalid, Err: err}
	}
	name := f.Table.Name()
	f.path = filepath.Join(a.options.Dir, name+".yaml")
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.files[name]; old != nil && old.path != f.path {
		return nil, job.Errorf(job.Refused, "lifecycle", "",
			"the lifecycle %s is in the file %s of the server: change it there", name, old.path)
	}
	if err := a.free(f); err != nil {
		return nil, err
	}
	if err := durable.MkdirAll(a.options.Dir, 0o700); err != nil {
		return nil, err
	}
	entry := operator.Entry{Actor: cmp.Or(actor, "unknown"), Event: "add-lifecycle",
		Object: name + " " + f.Table.Hash(), Note: note}
	if err := a.engine.Operator().Audit(ctx, entry); err != nil {
		return nil, err
	}
	if err := a.keep(ctx, f, text); err != nil {
		return nil, err
	}
	return f.Table, nil
}

// keep writes the file of a lifecycle and registers it: both or none. A new file is written first, so that a crash
// leaves no job of the kind without its lifecycle. A file is replaced last: a lifecycle that is refused must not
// replace that of open jobs.
func (a *App) keep(ctx context.Context, f *File, text []byte) error {
	old := a.files[f.Table.Name()]
	if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
		err = durable.Replace(f.path, text)
		if err == nil {
			err = a.register(ctx, f)
		}
		if err != nil {
			if gone := os.Remove(f.path); !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
		return err
	}
	if err := a.register(ctx, f); err != nil {
		return err
	}
	err := durable.Replace(f.path, text)
	switch {
	case err != nil && old != nil:
		err = errors.Join(err, a.register(ctx, old))
	case err != nil:
		delete(a.files, f.Table.Name())
		err = errors.Join(err, a.engine.Unregister(ctx, job.Kind(f.Table.Name())))
	}
	return err
}

// Remove removes a lifecycle that was added, with its file. It is refused while jobs of the kind exist that are not
// deleted. Errors: NotFound, Refused.
func (a *App) Remove(ctx context.Context, name, actor, note string) (*lifecycle.Table, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := a.files[name]
	switch {
	case f == nil:
		return nil, job.Errorf(job.NotFound, "lifecycle", "", "there is no added lifecycle %.100q (added: %s)", name,
			cmp.Or(strings.Join(slices.Sorted(maps.Keys(a.files)), ", "), "none"))
	case filepath.Dir(f.path) != a.options.Dir:
		return nil, job.Errorf(job.Refused, "lifecycle", "",
			"the lifecycle %s is in the file %s of the server: remove it there and restart the server", name, f.path)
	}
	if err := a.engine.Unregister(ctx, job.Kind(name)); err != nil {
		return nil, err
	}
	entry := operator.Entry{Actor: cmp.Or(actor, "unknown"), Event: "remove-lifecycle",
		Object: name + " " + f.Table.Hash(), Note: note}
	err := a.engine.Operator().Audit(ctx, entry)
	if err == nil {
		err = os.Remove(f.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it stays, and can be removed later
		return nil, errors.Join(err, a.register(ctx, f))
	}
	delete(a.files, name)
	return f.Table, durable.Sync(a.options.Dir)
}

// Tables reads the lifecycles in the files of directories.
func Tables(dirs ...string) (all []*lifecycle.Table, err error) {
	for _, dir := range dirs {
		paths, err := yamlFiles(dir)
		if err != nil {
			return all, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return all, err
			}
			f, err := Parse(path, text)
			if err != nil {
				return all, located(path, err)
			}
			all = append(all, f.Table)
		}
	}
	return all, nil
}

// free refuses the name of a kind of another application, and commands where there is no sandbox for them.
func (a *App) free(f *File) error {
	name := f.Table.Name()
	if a.files[name] == nil && a.engine.Life(job.Kind(name)) != nil {
		return job.Errorf(job.Refused, "lifecycle", "", "the server has a kind %s of its own: choose another name",
			name)
	}
	for _, state := range slices.Sorted(maps.Keys(f.spec.Work)) {
		if len(f.spec.Work[state].Command) > 0 && a.options.Sandbox == nil && !a.options.Remote {
			return job.Errorf(job.Refused, "lifecycle", "",
				"%s has a command, and this server runs none: see the settings lifecycle.commands and lifecycle.remote",
				state)
		}
	}
	return nil
}

func (a *App) register(ctx context.Context, f *File) error {
	if err := a.free(f); err != nil {
		return err
	}
	if err := a.engine.Register(ctx, a.options.work(f)); err != nil {
		return err
	}
	a.files[f.Table.Name()] = f
	return nil
}
