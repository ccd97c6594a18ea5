package ingest

import (
	"encoding/json"
	"fmt"

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
		b.Remedies = []job.Remedy{job.Running("ingest storage", "shows the storage locations and what is wrong with them")}
	case causeProfile:
		b.Holder, b.Remedy = "an operator", "put the profile back into the profile directory; the job continues at once"
	case causeSource:
		b.Holder, b.Remedy = "jobs of the same source", "wait for one of them to end, or start the server with more slots"
	case CauseCallback:
		b.Holder, b.Remedy = "the receiver of the callback", "correct the receiver"
		b.Remedies = []job.Remedy{job.Running("admin outbox --job "+string(j.ID), "shows the attempts to deliver the callback")}
	case "directory":
		b.Holder, b.Remedy = "the earlier attempt", "nothing: it ends when that attempt notices that its lease expired"
	case "lock-lost":
		b.Remedy = "nothing: it takes the lock again"
	case explain.BlockEnded:
		a.explainEnd(j, b)
	}
}

// explainEnd completes how a job ended: what was stored, or what to correct before a retry can help.
func (a *App) explainEnd(j *job.Job, b *job.Blocker) {
	switch {
	case j.Kind == record.BatchKind && j.Children.Failed > 0:
		failed := job.Running("list --outcome failed --parent "+string(j.ID), "lists the jobs that failed, with the reason")
		b.Remedies = append([]job.Remedy{failed}, b.Remedies...)
	case j.Kind == record.JobKind && j.Outcome == lifecycle.OK && !j.Gone && j.Message == "":
		b.Sentence = a.stored(j)
	case j.Kind == record.JobKind && j.Outcome == lifecycle.Failed:
		b.Remedy = corrections[j.Cause]
	}
}

// stored says what became of a completed job.
func (a *App) stored(j *job.Job) string {
	var spec record.JobSpec
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
