package report

import (
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// merrittJob is the report about a job with the keys of Merritt: those of its job configuration, status and message.
type merrittJob struct {
	Batch     job.ID `json:"batchID"`
	Job       job.ID `json:"jobID"`
	Profile   string `json:"profile"`
	Type      string `json:"type,omitempty"`
	Filename  string `json:"filename,omitempty"`
	Submitter string `json:"submitter,omitempty"`
	Submitted string `json:"submissionDate"` // RFC 3339
	Title     string `json:"title,omitempty"`
	Creator   string `json:"creator,omitempty"`
	Date      string `json:"date,omitempty"`
	ARK       string `json:"objectID,omitempty"`
	LocalID   string `json:"localID"` // several are joined by semicolons
	Version   int    `json:"versionID,omitempty"`
	Status    string `json:"status"`
	Message   string `json:"message"`
}

// merrittTypes are Merritt's words for the types of payloads.
var merrittTypes = map[string]string{"object-manifest": "manifest"}

func (r *Batch) merritt(j *Job) merrittJob {
	m := merrittJob{
		Batch: r.Batch, Job: j.Job, Profile: r.Profile, Type: j.Type, Filename: j.Filename, Submitter: r.Submitter,
		Submitted: r.Submitted.UTC().Format(time.RFC3339), Title: j.Title, Creator: j.Creator, Date: j.Date, ARK: j.ARK,
		LocalID: strings.Join(j.LocalIDs, ";"), Version: j.Version, Status: string(j.State), Message: j.Message,
	}
	if word := merrittTypes[j.Type]; word != "" {
		m.Type = word
	}
	if m.Message == "" && j.State == stateCompleted {
		m.Message = "Success"
	}
	return m
}
