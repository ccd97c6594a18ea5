package bulk

import (
	"encoding/json"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// About returns what a bulk does: its event and the filters that restrict it.
func About(j *job.Job) (title, object, page string) {
	var r Request
	if j.Kind != Kind || json.Unmarshal(j.Spec, &r) != nil {
		return "", "", ""
	}
	parts := []string{string(r.Event)}
	for _, k := range r.Kinds {
		parts = append(parts, string(k))
	}
	for _, s := range r.States {
		parts = append(parts, string(s))
	}
	for _, text := range []string{r.Group, r.Owner, r.Tag, string(r.Parent), r.Worker, r.Words} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " "), "", ""
}
