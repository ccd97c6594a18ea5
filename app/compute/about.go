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
	return spec.title(), "", ""
}

// title is what people call a job: its name, or that of its first file.
func (s *Spec) title() string {
	first := ""
	if len(s.Files) > 0 {
		first = s.Files[0].Name
	}
	return cmp.Or(s.Name, first)
}
