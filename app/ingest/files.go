package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/edge/safename"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/job"
)

// States of a file of a job.
const (
	FileWanted  = "wanted"  // named by the manifest; not here yet, or not any more
	FileFetched = "fetched" // in the working directory, its digests are those of the bytes that came
	FileStored  = "stored"  // in every storage location and in the inventory
)

// JobFile is one file of a job's object.
type JobFile = api.JobFile

// JobFiles is one page of the files of a job.
type JobFiles = api.JobFiles

// Where a list of files is read from; also the first letter of a cursor.
const (
	fromManifest  = "manifest"
	fromWork      = "work"
	fromInventory = "inventory"
)

// view is a job whose files are shown, without working on it.
type jobView struct {
	*App
	job  job.Job
	spec record.JobSpec
	data record.JobData
	dir  *workdir.Dir // nil if there is none
	ark  string       // of the version in the inventory; empty if there is none
	head int          // its number
}

// openView reads what is known of an ingest job, and opens its working directory for reading. The caller closes the
// view.
func (a *App) openView(ctx context.Context, id job.ID) (*jobView, error) {
	j, err := a.engine.Store().Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if j.Kind != record.JobKind {
		return nil, job.Errorf(job.Invalid, "files", id, "it is of kind %s, not an ingest job", j.Kind)
	}
	s := &jobView{App: a, job: j}
	if err := decodeBoth(&j, &s.spec, &s.data); err != nil {
		return nil, err
	}
	s.ark, s.head, err = a.inventory.VersionOf(ctx, string(id))
	if err != nil && !errors.Is(err, inventory.ErrNotFound) {
		return nil, err
	}
	if same := s.data.Same; s.ark == "" && same != nil {
		s.ark, s.head = same.ARK, same.Version
	}
	s.dir, err = a.tree.View(j.Parent, id)
	return s, err
}

func (s *jobView) close() error {
	if s.dir == nil {
		return nil
	}
	return s.dir.Close()
}

func (s *jobView) has(name string) bool { return s.dir != nil && s.dir.Has(name) }

// JobFiles gives a page of the files of a job in whatever state it is: from its manifest at first, then from its
// working directory, at last from the inventory. after is the Next of the page before. A cursor into a list that has
// been replaced meanwhile is of kind Conflict.
func (a *App) JobFiles(ctx context.Context, id job.ID, after string, limit int) (page JobFiles, err error) {
	s, err := a.openView(ctx, id)
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if limit <= 0 {
		limit = 100
	}
	limit = min(limit, 1000)
	page = JobFiles{Job: id, State: s.job.State, Files: []JobFile{}, Note: s.gone()}
	page.Source = s.source()
	source, at, err := parseCursor(after)
	switch {
	case err != nil:
		return page, job.Errorf(job.Invalid, "files", id, "%w", err)
	case source != "" && source != page.Source:
		return page, job.Errorf(job.Conflict, "files", id, "the list is another one by now: begin again")
	}
	switch page.Source {
	case fromInventory:
		return page, s.storedFiles(ctx, &page, at, limit)
	case fromWork:
		return page, s.workFiles(&page, at, limit)
	}
	return page, s.manifestFiles(ctx, &page, at, limit)
}

// source returns where the best list is.
func (s *jobView) source() string {
	switch {
	case s.ark != "":
		return fromInventory
	case s.has(ownList):
		return fromWork
	}
	return fromManifest
}

// gone names what was removed.
func (s *jobView) gone() string {
	switch {
	case s.job.Gone && s.ark != "":
		return fmt.Sprintf("the job was deleted; version %d of %s, which it stored, stays", s.head, s.ark)
	case s.job.Gone:
		return "the job was deleted, and its working files with it; it stored nothing"
	case s.job.Ended && s.dir == nil && s.ark == "":
		return "its working files were cleared away; a retry fetches them again"
	}
	return ""
}

// parseCursor takes a cursor apart; an empty one is the beginning.
func parseCursor(after string) (source, at string, err error) {
	if after == "" {
		return "", "", nil
	}
	source, at, ok := strings.Cut(after, ":")
	if ok && source == fromInventory && at != "" {
		return source, at, nil
	}
	if n, err := strconv.Atoi(at); ok && err == nil && n > 0 && (source == fromManifest || source == fromWork) {
		return source, at, nil
	}
	return "", "", fmt.Errorf("%.60q is no cursor of a list of files", after)
}

func (s *jobView) storedFiles(ctx context.Context, page *JobFiles, after string, limit int) error {
	files, err := s.inventory.Files(ctx, s.ark, s.head, after, limit+1)
	if err != nil {
		return err
	}
	if len(files) > limit {
		files = files[:limit]
		page.Next = fromInventory + ":" + files[limit-1].Path
	}
	for i := range files {
		page.Files = append(page.Files, s.ofObject(&files[i], FileStored, false))
	}
	return s.nameURLs(ctx, page)
}

// ofObject is a file with the digests that were taken of it.
func (s *jobView) ofObject(f *inventory.File, state string, kept bool) JobFile {
	one := JobFile{Path: f.Path, Size: f.Size, Digests: map[string]string{"sha256": f.SHA256, "sha512": f.SHA512},
		Type: f.MIME, State: state}
	switch {
	case kept:
		one.From = "an earlier version"
	case strings.HasPrefix(f.Path, workdir.SystemName+"/"):
		one.From = "stagepost"
	case s.spec.Type == TypeContainer:
		one.From = "container " + s.spec.Filename
	case s.spec.Type == TypeFile && s.spec.URL == "":
		one.From = "payload"
	case s.spec.Type == TypeFile:
		one.From = s.spec.URL
	}
	return one
}

// workFiles reads the list that Processing made, or that of the version once it is known.
func (s *jobView) workFiles(page *JobFiles, at string, limit int) error {
	skip, _ := strconv.Atoi(at) // checked by parseCursor
	name := ownList
	if s.data.List != "" && s.has(s.data.List) {
		name = s.data.List
	}
	n := 0
	for f, err := range workdir.Lines[listed](s.dir.Root, name) {
		if err != nil {
			return err
		}
		if n++; n <= skip {
			continue
		}
		if len(page.Files) == limit {
			page.Next = fmt.Sprintf("%s:%d", fromWork, n-1)
			break
		}
		page.Files = append(page.Files, s.ofObject(&f.File, FileFetched, f.Kept))
	}
	return nil
}

// manifestFiles lists what the manifest names, or the one file that was handed in.
func (s *jobView) manifestFiles(ctx context.Context, page *JobFiles, at string, limit int) error {
	if s.spec.Type != TypeObjectManifest {
		s.single(page)
		return nil
	}
	skip, _ := strconv.Atoi(at) // checked by parseCursor
	n := 0
	err := s.rows(ctx, func(row checkm.Row, name string) bool {
		if n++; n <= skip {
			return true
		}
		if len(page.Files) == limit {
			page.Next = fmt.Sprintf("%s:%d", fromManifest, n-1)
			return false
		}
		f := JobFile{Path: name, Size: row.Size, Type: row.MIMEType, From: row.URL, State: FileWanted}
		if !row.Digest.IsZero() {
			f.Digests = map[string]string{string(row.Digest.Algorithm): row.Digest.Value}
		}
		page.Files = append(page.Files, f)
		return true
	})
	if err != nil { // what was read so far stands; the job fails by the same error
		page.Note = strings.Trim(page.Note+"; "+err.Error(), "; ")
		if len(page.Files) == 0 {
			page.Source = ""
		}
	}
	return s.noteFetched(page)
}

// single is the list of a job of one file, or of a container that was not unpacked yet.
func (s *jobView) single(page *JobFiles) {
	name, err := specFileName(&s.spec, s.names(s.spec.Profile))
	if err != nil {
		name = workdir.PayloadName
	}
	f := JobFile{Path: name, Size: s.spec.Size, From: s.spec.URL, State: FileWanted}
	if s.spec.URL == "" {
		f.From = "payload"
	}
	if s.spec.Digest.Type != "" {
		f.Digests = map[string]string{s.spec.Digest.Type: s.spec.Digest.Value}
	}
	if s.has(path.Join(workdir.ProducerName, name)) || s.has(path.Join(workdir.PackageName, name)) ||
		s.spec.URL == "" && s.payloadThere() {
		f.State = FileFetched
	}
	page.Files = append(page.Files, f)
}

// payloadThere reports whether the batch's payload is still staged.
func (s *jobView) payloadThere() bool {
	f, err := s.staged(s.job.Parent, s.spec.Part)
	if err != nil {
		return false
	}
	_ = f.Close()
	return true
}

// rows reads the object's manifest, wherever it is, with the names that the files get.
func (s *jobView) rows(ctx context.Context, do func(row checkm.Row, name string) bool) (err error) {
	f, err := s.openManifest(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := checkm.NewReader(path.Base(s.spec.Filename), f,
		checkm.Options{Allow: []*checkm.Profile{checkm.Object}, Assume: checkm.Object})
	names := safename.Set{Rules: s.names(s.spec.Profile)}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w, err := ofFile(&names, row.FileName)
		if err != nil {
			return fmt.Errorf("line %d: %w", row.Line, err)
		}
		if !do(row, w.name) {
			return nil
		}
	}
}

// noteFetched marks the files of a page that have come, with the digests of what came.
func (s *jobView) noteFetched(page *JobFiles) error {
	if s.dir == nil {
		return nil
	}
	at := map[string]*JobFile{}
	for i := range page.Files {
		at[page.Files[i].Path] = &page.Files[i]
	}
	f, err := s.dir.Open(fetchedList)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var a arrived
		if json.Unmarshal(in.Bytes(), &a) != nil { // the line that is being written
			continue
		}
		if one := at[a.Name]; one != nil {
			if one.Digests == nil {
				one.Digests = map[string]string{}
			}
			one.Digests["sha256"], one.Digests["sha512"] = a.SHA256, a.SHA512
			one.Size, one.Type, one.State = a.Size, a.MIME, FileFetched
		}
	}
	return in.Err()
}

// nameURLs adds to a page of stored files where those of the manifest came from, if the manifest is still there.
func (s *jobView) nameURLs(ctx context.Context, page *JobFiles) error {
	if s.spec.Type != TypeObjectManifest {
		return nil
	}
	at := map[string]*JobFile{}
	for i := range page.Files {
		if page.Files[i].From == "" {
			at[trimTop(page.Files[i].Path)] = &page.Files[i]
		}
	}
	if len(at) == 0 {
		return nil
	}
	err := s.rows(ctx, func(row checkm.Row, name string) bool {
		if f := at[name]; f != nil {
			f.From = row.URL
			delete(at, name)
		}
		return len(at) > 0
	})
	if err == nil {
		for _, f := range at {
			f.From = "an earlier version"
		}
	}
	if job.KindOf(err) == job.Unavailable {
		return err
	}
	return ctx.Err()
}

// Named gives the newest job of each object with an ARK or local id.
func (a *App) Named(ctx context.Context, name string) (ids []job.ID, err error) {
	jobs, err := a.inventory.NewestJobs(ctx, name)
	for _, id := range jobs {
		ids = append(ids, job.ID(id))
	}
	return ids, err
}
