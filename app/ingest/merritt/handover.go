package merritt

import (
	"fmt"
	"net/url"
	"strings"

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
