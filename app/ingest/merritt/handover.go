package merritt

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// Merritt's storage and inventory continue with a job by the nodes that its Processing has written: where the files are
// listed, and where the object is listed when it is stored. Stagepost writes them for jobs whose files they can read.

// Files is part of ingest.Peers.
func (f *Follower) Files() string {
	if f.o.Storage == "" || f.o.Node <= 0 {
		return ""
	}
	return f.o.Files
}

// stored returns the nodes store and inventory of a job, nil if its files were not handed over.
func (o *Options) stored(j *job.Job) (store, inventory *merritt.Stored) {
	d, err := record.DataOf(j)
	if err != nil || d.Handed == nil || d.Identity == nil || o.Storage == "" {
		return nil, nil
	}
	mode := "add"
	if s, err := record.SpecOf(j); err == nil && s.Update {
		mode = "update"
	}
	at := fmt.Sprintf("%d/%s", o.Node, url.QueryEscape(d.Identity.ARK))
	return &merritt.Stored{ManifestURL: d.Handed.Manifest, Mode: mode + "/" + at, Delete: d.Handed.Delete},
		&merritt.Stored{ManifestURL: strings.TrimSuffix(o.Storage, "/") + "/manifest/" + at}
}

// continues returns why Stagepost cannot store what Merritt's programs have processed, or "". It reads no files: the
// store is locked meanwhile.
func (o *Options) continues(j *job.Job, p *merritt.Processed) string {
	const theirs = "Merritt's programs have processed it and continue with it: "
	switch {
	case objectOf(p.Store.Mode) == "":
		return theirs + "its node store does not exist or names no object"
	case o.Queue == "" && workable(j) != "":
		return theirs + "ingest.merritt.queue, the directory of its files, is not set"
	case o.Queue != "" && workable(j) != "" && folderOf(p) == "":
		return theirs + "the manifest in its node store is not the one of its working directory"
	}
	return ""
}

// folderOf returns the working directory of a processed job below Merritt's directory of payloads, "" if the manifest
// in the node store is another one.
func folderOf(p *merritt.Processed) string {
	batch, name := p.Value("batchID"), p.Value("jobID")
	for _, one := range []string{batch, name} {
		if one == "" || one == "." || one == ".." || strings.ContainsAny(one, `/\`) {
			return ""
		}
	}
	u, err := url.Parse(p.Store.ManifestURL)
	if err != nil || !strings.HasSuffix(u.Path, "/"+batch+"/"+name+"/system/mrt-manifest.txt") {
		return ""
	}
	return filepath.Join(batch, name)
}

// Processed is part of ingest.Peers.
func (f *Follower) Processed(ctx context.Context, id job.ID, taken bool) (*ingest.Processed, error) {
	s, known, err := f.store.Shown(ctx, id)
	if err != nil || !known || s.Node == "" || !s.Elsewhere && !taken {
		return nil, err
	}
	p, err := f.link.Processed(ctx, s.Node)
	if err != nil {
		return nil, job.Errorf(job.Unavailable, "store", id, "%s: %w", s.Node, err)
	}
	return &ingest.Processed{
		ARK: objectOf(p.Store.Mode), LocalIDs: p.Local, Title: p.Value("title"), Creator: p.Value("creator"),
		Date: p.Value("date"), Update: strings.HasPrefix(p.Store.Mode, "update/"), Delete: p.Store.Delete,
		Open: func() (*os.Root, error) { return f.openFolder(folderOf(p)) },
		Wait: job.Blocker{Code: merritt.ElsewhereCause, Holder: s.Node},
	}, nil
}

// openFolder opens a directory below Merritt's directory of payloads.
func (f *Follower) openFolder(name string) (*os.Root, error) {
	if f.o.Queue == "" || name == "" {
		return nil, fs.ErrNotExist
	}
	root, err := os.OpenRoot(f.o.Queue)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenRoot(name)
}

// objectOf returns the identifier in the mode of a node store, "" if there is none.
func objectOf(mode string) string {
	parts := strings.SplitN(mode, "/", 3)
	if len(parts) != 3 {
		return ""
	}
	ark, err := url.QueryUnescape(parts[2])
	if err != nil || !strings.HasPrefix(ark, "ark:") {
		return ""
	}
	return ark
}
