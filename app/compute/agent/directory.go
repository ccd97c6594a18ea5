package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// Names in the data directory and in a payload's.
const (
	stageName    = "stage"
	payloadsName = "payloads"
	jobName      = "job"
	exitName     = "exit.json"
	zipName      = "results.zip"
	resultsName  = "results.json"
	scriptName   = "run.sh"

	exchangedName = "exchanged" // what lay instead of the payload's own directory

	stdoutName = "stdout"
	stderrName = "stderr"
)

// pathOf returns the path of a payload's directory, or of something in it.
func (a *App) pathOf(id job.ID, names ...string) string {
	return filepath.Join(append([]string{a.options.Dir, payloadsName, string(id)}, names...)...)
}

// remove removes a payload's directory, if there is one. What a payload made unwritable for us is made writable first.
func (a *App) remove(id job.ID) error {
	if id == "" || !filepath.IsLocal(string(id)) {
		return job.Errorf(job.Internal, "remove", id, "this is no payload's directory")
	}
	root, err := os.OpenRoot(filepath.Join(a.options.Dir, payloadsName))
	if err != nil {
		return err
	}
	defer root.Close()
	err = root.RemoveAll(string(id))
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = fs.WalkDir(root.FS(), string(id), func(name string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = root.Chmod(name, 0o700) // os.Root: a link that leads out is not followed
		}
		return nil
	})
	return root.RemoveAll(string(id))
}

// sweep removes what no record needs: parcels that were being received when a process before this one ended,
// directories without a payload, and those of payloads whose files may go. It runs before anything is received, and
// again now and then.
func (a *App) sweep(ctx context.Context, first bool) error {
	var errs []error
	if first {
		stages, err := os.ReadDir(filepath.Join(a.options.Dir, stageName))
		errs = append(errs, err)
		for _, s := range stages {
			errs = append(errs, os.RemoveAll(filepath.Join(a.options.Dir, stageName, s.Name())))
		}
	}
	all, err := os.ReadDir(filepath.Join(a.options.Dir, payloadsName))
	errs = append(errs, err)
	for _, d := range all {
		if id := job.ID(d.Name()); strings.HasPrefix(d.Name(), prefix+"_") {
			errs = append(errs, a.sweepOne(ctx, id))
		}
	}
	return errors.Join(errs...)
}

func (a *App) sweepOne(ctx context.Context, id job.ID) error {
	free, ok := a.lock(id)
	if !ok {
		return nil // it is being received
	}
	defer free()
	j, err := a.engine.Store().Get(ctx, id)
	switch {
	case job.KindOf(err) == job.NotFound:
		a.log.Info("a directory without a payload is removed", "payload", id)
	case err != nil:
		return err
	case !j.Gone || a.trial(id) != nil:
		return nil
	}
	return a.remove(id)
}
