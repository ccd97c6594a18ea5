package report

import (
	"cmp"
	"strings"
	"time"
)

// Configuration is what Merritt's configuration of a job has of its submission, besides what a [Job] has.
type Configuration struct {
	Update       bool
	Size         int64 // of the payload; -1 when not known
	DigestType   string
	DigestValue  string
	Note         string
	Notification string
	ResourceType string
	RetainTarget bool
	DublinCore   map[string][]string // by element
}

// merrittTypes are Merritt's words for the types of payloads.
var merrittTypes = map[string]string{"object-manifest": "manifest"}

// merritt returns the report about a job with the keys of Merritt: those of its job configuration, status and message.
func (r *Batch) merritt(j *Job) map[string]any {
	v := map[string]any{
		"batchID": r.Batch, "jobID": j.Job, "profile": r.Profile, "submitter": cmp.Or(r.Submitter, "stagepost"),
		"submissionDate": r.Submitted.UTC().Format(time.RFC3339), "notificationFormat": "xml",
		"localID": strings.Join(j.LocalIDs, ";"), "status": j.State, "message": j.Message,
	}
	if j.Message == "" && j.State == stateCompleted {
		v["message"] = "Success"
	}
	if j.Version > 0 {
		v["versionID"] = j.Version
	}
	texts := map[string]string{"type": cmp.Or(merrittTypes[j.Type], j.Type), "filename": j.Filename, "title": j.Title,
		"creator": j.Creator, "date": j.Date, "objectID": j.ARK}
	if c := r.Configurations[j.Job]; c != nil {
		v["update"], v["size"] = c.Update, c.Size
		texts["digestType"], texts["digestValue"], texts["note"] = c.DigestType, c.DigestValue, c.Note
		texts["notification"], texts["DataCiteResourceType"] = c.Notification, c.ResourceType
		if c.RetainTarget {
			texts["retainTargetURL"] = "true"
		}
		for element, values := range c.DublinCore {
			texts["DC"+element] = strings.Join(values, "; ")
		}
	}
	for key, text := range texts {
		if text != "" {
			v[key] = text
		}
	}
	return v
}
