package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/format/ocfl"
)

// What the inventory tells of versions.
type (
	Version = inventory.Version
	Place   = inventory.Place
)

// Content tells where the files of a version lie in one storage location: from each path in the object to the path below the place, for [App.OpenContent].
// It goes by what the place itself says of the object. A place that does not exist, or does not have the version, is fs.ErrNotExist; none is made.
func (a *App) Content(ctx context.Context, ark string, place Place) (map[string]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	missing := func(err error) error {
		if errors.Is(err, ocfl.ErrNotFound) {
			err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return fmt.Errorf("storage location %s: %w", place.Dir, err)
	}
	root, err := ocfl.OpenRoot(a.locations.Path(place.Dir))
	if err != nil {
		return nil, missing(err)
	}
	defer root.Close()
	o, err := root.Object(ark)
	if err != nil {
		return nil, missing(err)
	}
	files, err := o.Files(place.Name)
	if err != nil {
		return nil, missing(err)
	}
	paths := make(map[string]string, len(files))
	for _, f := range files {
		paths[f.Path] = o.Dir() + "/" + f.Content
	}
	return paths, nil
}

// OpenContent opens a file of a storage location by the path that Content gave. Nothing is checked of it but that it is a file and lies in the place.
func (a *App) OpenContent(place, path string) (*os.File, error) {
	root, err := os.OpenRoot(a.locations.Path(place))
	if err != nil {
		var where *fs.PathError
		if errors.As(err, &where) {
			err = where.Err // who fetches a package need not know where storage is
		}
		return nil, fmt.Errorf("storage location %s: %w", place, err)
	}
	defer root.Close()
	info, err := root.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return root.Open(path)
}
