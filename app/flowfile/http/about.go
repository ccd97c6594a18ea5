package flowhttp

import (
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
)

// about gives the name of a flow.
func about(j *job.Job) (title, object, page string) {
	spec, err := durable.SpecOf(j)
	if err != nil {
		return "", "", ""
	}
	return spec.Name, "", ""
}
