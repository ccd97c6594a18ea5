package archiveserve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stagepost/stagepost/app/archive/catalog"
	archiveconfig "github.com/stagepost/stagepost/app/archive/config"
	"github.com/stagepost/stagepost/edge/storage"
	"github.com/stagepost/stagepost/module"
)

// Check is part of [module.Checker].
func (a *App) Check(ctx context.Context) (module.Findings, error) {
	return compare(ctx, a.Catalog, a.live.now.Load().Config)
}

// CheckDir compares the catalog of a data directory with the storage locations.
func (s *Settings) CheckDir(ctx context.Context, d module.Directory) (found module.Findings, err error) {
	file := filepath.Join(d.Dir, catalog.Name)
	if _, err := os.Stat(file); d.Postgres == "" && errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	c, err := archiveconfig.Load(s.File(d.Dir))
	if errors.Is(err, archiveconfig.ErrNone) {
		if empty, err := noArchives(ctx, d); empty || err != nil {
			return found, err
		}
		return module.Findings{Faults: []string{fmt.Sprintf("there are archives, but %v", err)}}, nil
	}
	if err != nil {
		return found, err
	}
	cat, err := Catalog.Open(ctx, module.Databases{Dir: d.Dir, Postgres: d.Postgres}, d.Installation)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, cat.Close()) }()
	return compare(ctx, cat, c)
}

// maxFaults is the number of faults that are named.
const maxFaults = 100

// compare compares the catalog with the directories that are storage locations: each verified copy must be there in
// full length. No content is read, and no other machine is asked.
func compare(ctx context.Context, cat *catalog.Catalog, c *archiveconfig.Config) (found module.Findings, err error) {
	found.About = "copies of archives"
	open := map[string]*storage.Dir{}
	for name, l := range c.Locations {
		if l.Directory == nil {
			continue
		}
		d, err := storage.OpenDir(l.Directory.Path, storage.Local)
		if err != nil {
			fault(&found, "archive location %s: %v", name, err)
			continue
		}
		defer d.Close()
		open[name] = d
	}
	for before := ""; ; {
		archives, err := cat.Archives(ctx, catalog.Query{Before: before, Limit: 1000})
		if err != nil || len(archives) == 0 {
			return found, err
		}
		for _, a := range archives {
			if before = a.Job; a.Outcome != catalog.Complete {
				continue
			}
			found.Objects++
			if err := compareOne(ctx, cat, open, a.Job, &found); err != nil {
				return found, err
			}
		}
	}
}

func compareOne(
	ctx context.Context, cat *catalog.Catalog, open map[string]*storage.Dir, id string, found *module.Findings,
) error {
	all, err := cat.Copies(ctx, id, "")
	if err != nil {
		return err
	}
	for i := range all {
		c := &all[i]
		d := open[c.Location]
		if d == nil || !c.Good() {
			continue
		}
		found.Versions++
		switch s, err := d.Stat(ctx, c.Key); {
		case errors.Is(err, fs.ErrNotExist):
			fault(found, "archive %s: %s: the copy in %s is missing", id, c.Of.Path, c.Location)
		case err != nil:
			fault(found, "archive %s: %s: %v", id, c.Of.Path, err)
		case s.Size != c.Size:
			fault(found, "archive %s: %s: the copy in %s has %d bytes, not %d", id, c.Of.Path, c.Location, s.Size,
				c.Size)
		}
	}
	return nil
}

func fault(found *module.Findings, format string, args ...any) {
	if len(found.Faults) >= maxFaults {
		found.More++
		return
	}
	found.Faults = append(found.Faults, fmt.Sprintf(format, args...))
}

// noArchives reports whether a catalog has no archives. Each server of a database creates one, which a migration
// copies.
func noArchives(ctx context.Context, d module.Directory) (empty bool, err error) {
	where := module.Databases{Dir: d.Dir, Postgres: d.Postgres}
	if there, err := Catalog.Exists(ctx, where); !there || err != nil { // a check makes none
		return !there, err
	}
	cat, err := Catalog.Open(ctx, where, d.Installation)
	if err != nil {
		return false, err
	}
	all, err := cat.Archives(ctx, catalog.Query{Limit: 1})
	return len(all) == 0, errors.Join(err, cat.Close())
}
