package compute

import (
	"cmp"

	"github.com/stagepost/stagepost/job"
)

// About gives what a job is about: its name, or the name of its first file.
func About(j *job.Job) (title, object, page string) {
	if j.Kind != JobKind {
		return "", "", ""
	}
	spec, err := SpecOf(j)
	if err != nil {
		return "", "", ""
	}
	first := ""
	if len(spec.Files) > 0 {
		first = spec.Files[0].Name
	}
	return cmp.Or(spec.Name, first), "", ""
}
