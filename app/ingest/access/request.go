package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Bounds of a list of files.
const (
	maxNames     = 10_000
	maxNameBytes = 512 << 10 // of all names
)

// Request asks for something that is stored.
type Request struct {
	Object    string   // its ARK; or
	LocalID   string   // the depositor's own name for it, with
	Owner     string   // whose name that is; may be empty if no other owner has it
	Version   int      // 0: the newest
	Files     []string // paths in the version; those of the depositor may leave out producer/. None: all files
	Format    string   // zip, tar, bag-zip or bag-tar. Empty: zip
	Name      string   // of the package, without ending. Empty: made of ARK and version
	Requester string   // who asks
	Key       string   // idempotency key

	User  string // owner of the user token that asks: only objects that it may use exist. Empty: all do
	Staff bool   // objects that the user may not use exist for it: they are refused with [ErrForeign]
	Token string // hash of the API token that asks: the package token is valid as long as it is. Empty: tied to nothing
}

// ErrForeign is the error of a request of staff for an object that it may not use.
var ErrForeign = errors.New("its files are for its owner, for the updaters of its profile, and for admins")

// spec is what a job is created with. It never changes, so that a second attempt packs the same.
type spec struct {
	ARK        string   `json:"ark"`
	Version    int      `json:"version"`
	Files      []string `json:"files,omitempty"` // sorted; none: all
	Format     string   `json:"format"`
	Name       string   `json:"name"`
	Requester  string   `json:"requester,omitempty"`
	Collection string   `json:"collection"`
	Count      int      `json:"count"` // files
	Bytes      int64    `json:"bytes"` // of their content
}

// Request makes a job of a request, and gives what its token gives. A second request with the same key by the same
// requester gives the job of the first; if it asks for something else the error is of kind Conflict. What is not stored
// is NotFound.
func (a *App) Request(ctx context.Context, r Request) (Status, error) {
	if a.engine == nil {
		return Status{}, job.Errorf(job.Unavailable, "access", "", "no engine is bound")
	}
	s, err := a.resolve(ctx, r)
	if err != nil {
		return Status{}, err
	}
	id, err := a.newID(a.engine.Clock().Now())
	if err != nil {
		return Status{}, job.Errorf(job.Unavailable, "access", "", "id: %w", err)
	}
	j, err := a.engine.Submit(ctx, engine.Order{
		ID: id, Kind: Kind, Group: s.Collection, Owner: r.Requester, Key: r.Key, Spec: s, Actor: r.Requester,
		Tags: []string{a.queue(s.Bytes)}, Bytes: s.Bytes,
	})
	if err != nil {
		return Status{}, err
	}
	if j.ID != id {
		if s, err = a.sameRequest(ctx, &j, r, s); err != nil {
			return Status{}, err
		}
	}
	return a.status(ctx, &j, s, a.token(j.ID, r.Token))
}

// sameRequest refuses a key that was used for something else, and gives the spec of the first request. Who asked for
// the newest version, and asks again when there is a newer one, still means the package of the first request.
func (a *App) sameRequest(ctx context.Context, j *job.Job, r Request, want *spec) (*spec, error) {
	got, err := specOf(j)
	if err != nil {
		return nil, err
	}
	if r.Version == 0 && got.ARK == want.ARK && got.Version != want.Version {
		r.Version = got.Version
		if want, err = a.resolve(ctx, r); err != nil {
			return nil, err
		}
	}
	if !reflect.DeepEqual(got, want) {
		return nil, job.Errorf(job.Conflict, "access", j.ID, "the key %q was used for another request", j.Key)
	}
	return got, nil
}

func invalid(format string, args ...any) error {
	return job.Errorf(job.Invalid, "access", "", format, args...)
}

// resolve finds what is asked for. The version is settled here: a newer one that comes meanwhile is another package.
func (a *App) resolve(ctx context.Context, r Request) (*spec, error) {
	s := &spec{Format: cmp.Or(r.Format, FormatZIP), Requester: r.Requester}
	if _, ok := formats[s.Format]; !ok {
		return nil, invalid("there is no format %.40q (known: %s, %s, %s, %s)", s.Format, FormatZIP, FormatTAR,
			FormatBagZIP, FormatBagTAR)
	}
	if len(r.Requester) > job.MostName || len(r.Key) > job.MostName || len(r.LocalID) > 4096 || len(r.Owner) > 4096 {
		return nil, invalid("requester, key, local id or owner is too long")
	}
	if strings.ContainsFunc(r.Requester+r.Key, unicode.IsControl) {
		return nil, invalid("requester or key has a control character")
	}
	o, err := a.object(ctx, &r)
	if err != nil {
		return nil, err
	}
	if r.Version < 0 {
		return nil, invalid("there is no version %d", r.Version)
	}
	s.ARK, s.Version, s.Collection = o.ARK, cmp.Or(r.Version, o.Head), o.Collection
	v := version(o, s.Version)
	if v == nil {
		return nil, job.Errorf(job.NotFound, "access", "", "%s has no version %d (the newest is %d)", o.ARK, s.Version,
			o.Head)
	}
	if s.Name, err = packageName(r.Name, s.ARK, s.Version); err != nil {
		return nil, err
	}
	s.Count, s.Bytes = v.Files, v.Bytes
	if len(r.Files) > 0 {
		if err := a.choose(ctx, s, r.Files); err != nil {
			return nil, err
		}
	}
	if why := a.tooLarge(s); why != "" {
		return nil, job.Errorf(job.Refused, "access", "", "%s: ask for a part of it by its files", why)
	}
	return s, nil
}

// object finds the one object that is meant.
func (a *App) object(ctx context.Context, r *Request) (*ingest.Object, error) {
	if (r.Object == "") == (r.LocalID == "") {
		return nil, invalid("an object is named by its ARK or by a local id, one of the two")
	}
	q := ingest.ObjectQuery{
		ARK: r.Object, LocalID: r.LocalID, Owner: r.Owner, Limit: 2, Permit: a.options.Holdings.Permit(r.User),
	}
	all, err := a.options.Holdings.Objects(ctx, q)
	if err == nil && len(all) == 0 && r.Staff && r.User != "" {
		q.Permit = a.options.Holdings.Permit("")
		if all, err = a.options.Holdings.Objects(ctx, q); err == nil && len(all) > 0 {
			err = fmt.Errorf("%.200q: %w", cmp.Or(r.Object, r.LocalID), ErrForeign)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, job.Errorf(job.NotFound, "access", "", "there is no object %.200q", cmp.Or(r.Object, r.LocalID))
	case len(all) > 1:
		return nil, invalid("several owners have an object of the local id %.200q: name the owner too", r.LocalID)
	}
	return &all[0], nil
}

func version(o *ingest.Object, n int) *ingest.Version {
	for i := range o.Versions {
		if o.Versions[i].Number == n {
			return &o.Versions[i]
		}
	}
	return nil
}

// choose settles the list of files: each exists and is taken once. A name that is the path of a file means that file,
// and one below producer/ only if there is none.
func (a *App) choose(ctx context.Context, s *spec, names []string) error {
	if len(names) > maxNames {
		return invalid("a list has at most %d files: ask for the whole version", maxNames)
	}
	wanted, bytes := map[string]bool{}, 0
	for _, name := range names {
		if bytes += len(name); name == "" || bytes > maxNameBytes {
			return invalid("a name in the list of files is empty, or the list is longer than %d bytes", maxNameBytes)
		}
		wanted[name] = true
	}
	type found struct {
		path string
		size int64
	}
	exact, short := map[string]found{}, map[string]found{}
	err := a.each(ctx, s.ARK, s.Version, nil, func(f *ingest.StoredFile) error {
		if wanted[f.Path] {
			exact[f.Path] = found{f.Path, f.Size}
		}
		if name, ok := strings.CutPrefix(f.Path, "producer/"); ok && wanted[name] {
			short[name] = found{f.Path, f.Size}
		}
		return nil
	})
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	for _, name := range names {
		f, ok := exact[name]
		if !ok {
			f, ok = short[name]
		}
		if !ok {
			return job.Errorf(job.NotFound, "access", "", "version %d of %s has no file %.200q", s.Version, s.ARK, name)
		}
		sizes[f.path] = f.size
	}
	s.Files, s.Count, s.Bytes = slices.Sorted(maps.Keys(sizes)), len(sizes), 0
	for _, size := range sizes {
		s.Bytes += size
	}
	return nil
}

// each goes through the files of a version in order of their paths: all, or those of a sorted list.
func (a *App) each(ctx context.Context, ark string, version int, only []string,
	do func(*ingest.StoredFile) error) error {
	const page = 1000
	for after := ""; ; {
		files, err := a.options.Holdings.Files(ctx, ark, version, after, page)
		if err != nil {
			return err
		}
		for i := range files {
			after = files[i].Path
			if len(only) > 0 {
				if _, found := slices.BinarySearch(only, after); !found {
					continue
				}
			}
			if err := do(&files[i]); err != nil {
				return err
			}
		}
		if len(files) < page {
			return nil
		}
	}
}

// tooLarge states why no package can be made of so much; "" if one can.
func (a *App) tooLarge(s *spec) string {
	switch o := &a.options; {
	case s.Count > o.MaxFiles:
		return fmt.Sprintf("%d files are more than the %d that one package may have", s.Count, o.MaxFiles)
	case o.MaxBytes > 0 && s.Bytes > o.MaxBytes:
		return fmt.Sprintf("%d bytes are more than the %d that one package may have", s.Bytes, o.MaxBytes)
	}
	return ""
}

// packageName gives the name of a package and of the directory in it: what was asked for, or one made of ARK and
// version.
func packageName(given, ark string, version int) (string, error) {
	if given == "" {
		words := strings.FieldsFunc(ark, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
		})
		return fmt.Sprintf("%s-v%d", strings.Join(words, "-"), version), nil
	}
	name, err := safename.Clean(given)
	if err != nil {
		return "", invalid("%w", err)
	}
	if strings.ContainsAny(name, `/"<>:|?*%;`) || strings.ContainsAny(name[:1], ".~-") || len(name) > 120 {
		return "", invalid("the name %.140q of the package: at most 120 bytes, none of %s and not beginning with "+
			". ~ or -",
			given, `/ " < > : | ? * % ;`)
	}
	return name, nil
}
