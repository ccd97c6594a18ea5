package ingest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// explain completes why a job waits, rests or ended: of a wait the record keeps code, sentence and time alone.
func (a *App) explain(j *job.Job, b *job.Blocker) {
	switch b.Code {
	case causeLocation:
		b.Holder = "the storage location"
		b.Remedies = []job.Remedy{job.Running("ingest storage",
			"shows the storage locations and what is wrong with them")}
	case causeProfile:
		b.Holder, b.Remedy = "an operator", "put the profile back into the profile directory; the job continues at once"
	case causeSource:
		b.Holder, b.Remedy = "jobs of the same source",
			"wait for one of them to end, or start the server with more slots"
	case CauseCallback:
		b.Holder, b.Remedy = "the receiver of the callback", "correct the receiver"
		b.Remedies = []job.Remedy{job.Running("admin outbox --job "+string(j.ID),
			"shows the attempts to deliver the callback")}
	case "directory":
		b.Holder, b.Remedy = "the earlier attempt", "nothing: it ends when that attempt notices that its lease expired"
	case causePeers:
		a.explainPeers(j, b)
	case "lock-lost":
		b.Remedy = "nothing: it takes the lock again"
	case explain.BlockEnded:
		a.explainEnd(j, b)
	}
}

// causePeers is the cause of a job that programs of another system have begun and continue, as package
// store/zookeeper/merritt has it.
const causePeers = "merritt-work"

// explainPeers names what moves a job that another system has begun: that system, or a person who has it begin here.
func (a *App) explainPeers(j *job.Job, b *job.Blocker) {
	b.Holder, b.Remedy = "the programs of the other system", "start the programs of the other system"
	switch j.State {
	case record.Estimating, record.Provisioning, record.Downloading, record.Processing:
		b.Remedy += ", or let the job be worked on here: stop it, and then retry it"
		b.Remedies = append([]job.Remedy{
			job.Causing(record.Stop, j.ID, false, "ends it; a retry then begins with the payload on this server"),
		}, b.Remedies...)
	}
}

// explainEnd completes how a job ended: what was stored, or what to correct before a retry can help.
func (a *App) explainEnd(j *job.Job, b *job.Blocker) {
	switch {
	case j.Kind == record.BatchKind && j.Children.Failed > 0:
		failed := job.Running("list --outcome failed --parent "+string(j.ID),
			"lists the jobs that failed, with the reason")
		b.Remedies = append([]job.Remedy{failed}, b.Remedies...)
	case j.Kind == record.BatchKind && j.Outcome == lifecycle.OK && !j.Gone && j.Message == "":
		b.Sentence = fmt.Sprintf("%s: jobs completed: %d", j.State, j.Children.OK)
		if n := j.Children.Deleted; n > 0 {
			b.Sentence += fmt.Sprintf(", deleted: %d", n)
		}
	case j.Kind == record.JobKind && j.Outcome == lifecycle.OK && !j.Gone && j.Message == "":
		b.Sentence = a.stored(j)
	case j.Kind == record.BatchKind && j.Outcome == lifecycle.Failed && j.Children.Created() == 0:
		b.Remedy = corrections[j.Cause]
		// an update counts jobs that were retried, and there are none
		update := job.Causing(record.Update, j.ID, false, "").Command
		b.Remedies = slices.DeleteFunc(b.Remedies, func(r job.Remedy) bool { return r.Command == update })
	case j.Kind == record.JobKind && j.Outcome == lifecycle.Failed:
		b.Remedy = corrections[j.Cause]
	}
}

// stored describes the result of a completed job.
func (a *App) stored(j *job.Job) string {
	var spec record.JobHead
	var data record.JobData
	if json.Unmarshal(j.Spec, &spec) != nil || json.Unmarshal(j.Data, &data) != nil {
		return "stored"
	}
	text := "stored"
	if who, version := data.Object(); who != nil && who.ARK != "" {
		text = fmt.Sprintf("stored as %s, version %d", who.ARK, version)
	}
	if p, ok := a.options.Profiles.Get(spec.Profile); ok && p.Callback == nil {
		return text + "; nothing to notify"
	}
	return text + "; the callback is in the outbox"
}

// corrections are what to correct before a retry can help, by the cause of the failure.
var corrections = map[string]string{
	CauseRefused:         "allow the address in the profile (networks), or hand the files in from another address",
	CauseNotFound:        "put the file at its address",
	CauseHTTPStatus:      "correct the server that has the file",
	CauseServer:          "correct the server that has the file",
	CauseNetwork:         "make the server that has the file reachable",
	CauseBadDigest:       "put the file that the manifest describes at its address",
	CauseBadSize:         "put the file that the manifest describes at its address",
	CauseTooLarge:        "raise the limits of the profile",
	CauseStorage:         "repair the storage location",
	CauseMinter:          "correct the minter of the profile",
	CauseCallback:        "correct the receiver of the callback",
	cause.Disk:           "free space on the disk",
	CausePayloadDigest:   newSubmission,
	CauseCorruptManifest: newSubmission,
	CausePayloadMissing:  newSubmission,
	CauseWrongType:       newSubmission,
	CauseBadRow:          newSubmission,
}

const newSubmission = "correct what was handed in, and submit it again: a retry cannot help"

// About gives what a batch or job is about: its title or file name, the ARK of its object, and the path of a batch's
// page.
func About(j *job.Job) (title, object, page string) {
	switch j.Kind {
	case record.BatchKind:
		var spec record.BatchHead
		if json.Unmarshal(j.Spec, &spec) == nil {
			title = cmp.Or(spec.Title, spec.Filename)
		}
		return title, "", "/batches/" + url.PathEscape(string(j.ID))
	case record.JobKind:
		var spec record.JobHead
		var data record.JobData
		if json.Unmarshal(j.Spec, &spec) != nil || len(j.Data) > 0 && json.Unmarshal(j.Data, &data) != nil {
			return "", "", ""
		}
		if who, _ := data.Object(); who != nil {
			title, object = who.Title, who.ARK
		}
		return cmp.Or(title, spec.Title, spec.Filename, fileOf(spec.URL)), cmp.Or(object, spec.PrimaryID), ""
	}
	return "", "", ""
}

// fileOf gives the file name in a URL.
func fileOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return ""
	}
	return path.Base(u.Path)
}

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

// parks reports whether a hold takes Pending batches and jobs out of the queue, to stay Held until a person releases
// them: a hold on a collection, or on one batch or job, that does not end by itself. Under other holds they wait where
// they are.
func parks(h *job.Hold) bool { return (h.Group != "" || h.Job != "") && h.Until.IsZero() }

// label tags a job with its size as known now, and before Storing with the locations to which it will write: the
// profile may have changed since the job was made.
func (t *task) label() {
	if t.data.Size > 0 {
		t.SetBytes(t.data.Size)
	}
	if p, ok := t.app.options.Profiles.Get(t.spec.Profile); ok && t.Job().State == record.Processing {
		t.SetTags(tags(p)...)
	}
}
