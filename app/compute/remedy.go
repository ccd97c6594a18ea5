package compute

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/quantity"
)

// remedies returns what people can do about a job that did not end well: fetch what it left, and run it again, with a
// larger limit if it exceeded one.
func (a *App) remedies(j *job.Job) []job.Remedy {
	spec, err := SpecOf(j)
	d, errData := DataOf(j)
	if err != nil || errData != nil || j.Outcome == lifecycle.OK || j.Gone || spec.Imported != nil {
		return nil
	}
	path := "/api/v1/compute/jobs/" + url.PathEscape(string(j.ID))
	var all []job.Remedy
	if d.Results != nil {
		all = append(all, job.Remedy{Doc: "fetches what it left", Command: "stagepost compute results " + string(j.ID),
			Method: "GET", Path: path + "/results"})
	}
	service := a.services[j.Group]
	name, value := "", ""
	if service != nil {
		name, value = larger(j.Cause, spec.Limits.Over(service.Limits), service.Max)
	}
	switch {
	case value != "":
		body, _ := json.Marshal(map[string]any{"limits": map[string]string{name: value}}) // words alone
		return append(all, job.Remedy{
			Doc:     "runs it again as a new job with a larger limit",
			Command: fmt.Sprintf("stagepost compute clone %s --limit %s=%s", j.ID, name, value),
			Method:  "POST", Path: path + "/clone", Body: body,
		})
	case name != "":
		return append(all, job.Running("compute clone "+string(j.ID)+" --service NAME",
			"runs it again as a new job of a service that allows a larger limit of "+name))
	case j.Cause == CauseRejected:
		return append(all, job.Running("compute clone "+string(j.ID)+" --service NAME",
			"runs it again as a new job of another service; a retry would be refused again"))
	case a.Repeatable(j) != nil:
		return append(all, job.Running("compute clone "+string(j.ID)+" --service NAME",
			"runs it again as a new job of another service; a retry is refused: "+job.Reason(a.Repeatable(j))))
	}
	return append(all, job.Remedy{
		Doc: "runs it again as a new job", Command: "stagepost retry " + string(j.ID), Method: "POST",
		Path: path + "/retry",
	})
}

// larger returns the name of the limit whose excess is the cause, and twice its value, or as much as the service
// allows. Without a name the job had no such limit; without a value the service allows no more.
func larger(cause string, l, most Limits) (name, value string) {
	switch cause {
	case CauseMemory:
		return twice("memory", l.Memory, most.Memory, quantity.FormatBytes)
	case CauseDisk:
		return twice("disk", l.Disk, most.Disk, quantity.FormatBytes)
	case CauseTimeout:
		return twice("wall", l.Wall, most.Wall, quantity.FormatDuration)
	case CauseCPU:
		return twice("cpu", l.CPU, most.CPU, quantity.FormatDuration)
	}
	return "", ""
}

func twice[T ~int64](name string, limit, most T, text func(T) string) (string, string) {
	value := 2 * limit
	if most > 0 {
		value = min(value, most)
	}
	switch {
	case limit <= 0:
		return "", ""
	case value <= limit:
		return name, ""
	}
	return name, text(value)
}
