package ingest

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
)

// About gives what a batch or job is about: its title or file name, the ARK of its object, and the path of a batch's page.
func About(j *job.Job) (title, object, page string) {
	switch j.Kind {
	case record.BatchKind:
		var spec record.BatchSpec
		if json.Unmarshal(j.Spec, &spec) == nil {
			title = cmp.Or(spec.Title, spec.Filename)
		}
		return title, "", "/batches/" + url.PathEscape(string(j.ID))
	case record.JobKind:
		var spec record.JobSpec
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
