package archive

import (
	"encoding/json"

	"github.com/stagepost/stagepost/job"
)

// About returns what an archive job is about: its course, by its name as soon as the source was read.
func About(j *job.Job) (title, object, page string) {
	var r Request
	if j.Kind != Kind || json.Unmarshal(j.Spec, &r) != nil {
		return "", "", ""
	}
	var d struct {
		Course struct {
			Name string `json:"name"`
		} `json:"course"`
	}
	if json.Unmarshal(j.Data, &d) == nil && d.Course.Name != "" {
		return d.Course.Name, r.Source + " " + r.Course, ""
	}
	return "course " + r.Course + " of " + r.Source, r.Source + " " + r.Course, ""
}
