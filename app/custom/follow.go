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

const (
	followEvery = time.Second      // between lists of the lifecycles that other servers have added or removed
	followAgain = 10 * time.Second // until what could not be followed is tried again
)

// follow does what other servers of the store have done in the directory of added lifecycles. A lifecycle that cannot
// be registered or removed now is tried again later, and when the directory changes. Until then the kind stays as it
// was here.
func (a *App) follow(ctx context.Context) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		text := ""
		if err := a.Follow(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != logged && text != "" {
			a.options.Log.Warn("a lifecycle of another server cannot be followed now", "error", text)
		}
		logged = text
	}
}

// Follow registers the lifecycles that another server has added, and removes those that it has removed. After an error
// it gives that error, without another try, for some time or until the directory changes.
func (a *App) Follow(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	paths, seen, err := a.list()
	if err != nil {
		return err
	}
	now := time.Now()
	if seen == a.seen && (a.fault == nil || now.Before(a.again)) {
		return a.fault
	}
	a.seen, a.again = seen, now.Add(followAgain)
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
	a.fault = errors.Join(errs...)
	return a.fault
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
