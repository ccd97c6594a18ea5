package computehttp

import (
	"encoding/json"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// withoutSecrets gives a record as it may leave the server. The data of a compute job has the secret of its ticket,
// which allows its holder to ask the agent for the payload, and end it. Data that cannot be read does not leave at all.
// The bytes of the record, which others may share, stay as they are.
func withoutSecrets(j job.Job) job.Job {
	if j.Kind != compute.JobKind || len(j.Data) == 0 {
		return j
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(j.Data, &fields) != nil {
		j.Data = nil
		return j
	}
	delete(fields, "secret")
	text, err := json.Marshal(fields)
	if err != nil {
		text = nil
	}
	j.Data = text
	return j
}
