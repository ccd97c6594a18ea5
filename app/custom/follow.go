package custom

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// followEvery is how often a server lists the lifecycles that other servers have added or removed.
const followEvery = time.Second

// follow does what other servers of the store have done in the directory of added lifecycles. A lifecycle that cannot
// be registered or removed now is tried again when the directory changes.
func (a *App) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = a.Follow(ctx) // the kind stays as it was here, and the next change of the directory tries again
		}
	}
}

// Follow registers the lifecycles that another server has added, and removes those that it has removed.
func (a *App) Follow(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	paths, seen, err := a.list()
	if err != nil || seen == a.seen {
		return err
	}
	a.seen = seen
	var errs []error
	for _, path := range paths {
		if err := a.load(ctx, path); err != nil {
			errs = append(errs, located(path, err))
		}
	}
	for name, f := range a.files {
		if filepath.Dir(f.path) != a.options.Dir || slices.Contains(paths, f.path) {
			continue
		}
		if err := a.engine.Unregister(ctx, job.Kind(name)); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(a.files, name)
	}
	return errors.Join(errs...)
}

// list lists the files of added lifecycles, with a text that differs when one of them does.
func (a *App) list() (paths []string, seen string, err error) {
	if paths, err = yamlFiles(a.options.Dir); err != nil {
		return nil, "", err
	}
	var b strings.Builder
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, "", err
		}
		fmt.Fprintf(&b, "%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
	}
	return paths, b.String(), nil
}
