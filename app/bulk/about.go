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
	words := []string{string(r.Event)}
	for _, k := range r.Kinds {
		words = append(words, string(k))
	}
	for _, s := range r.States {
		words = append(words, string(s))
	}
	for _, text := range []string{r.Group, r.Owner, r.Tag, string(r.Parent)} {
		if text != "" {
			words = append(words, text)
		}
	}
	return strings.Join(words, " "), "", ""
}
