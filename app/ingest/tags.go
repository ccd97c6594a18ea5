package ingest

import (
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
)

// QueueTag is the tag of all batches and jobs: a hold on it pauses ingest as a whole.
const QueueTag = "queue=ingest"

// PlaceTag gives the tag of the jobs that are to write to a storage location, as the profile names it.
func PlaceTag(dir string) string { return "place=" + dir }

// tags gives what holds name the jobs of a profile by: the queue and every storage location.
func tags(p *profile.Profile) []string {
	all := []string{QueueTag}
	for _, dir := range p.Storage {
		all = append(all, PlaceTag(dir))
	}
	return all
}

// parks tells whether a hold takes Pending batches and jobs out of the queue, to stay Held until somebody releases them (001, 003): a hold on a
// collection, or on one batch or job, that does not end by itself. Under other holds they wait where they are.
func parks(h *job.Hold) bool { return (h.Group != "" || h.Job != "") && h.Until.IsZero() }

// label says how large the job is by what is known now, and before Storing to which places it will write: the profile may have changed since the
// job was made.
func (t *task) label() {
	if t.data.Size > 0 {
		t.SetBytes(t.data.Size)
	}
	if p, ok := t.app.options.Profiles.Get(t.spec.Profile); ok && t.Job().State == record.Processing {
		t.SetTags(tags(p)...)
	}
}
