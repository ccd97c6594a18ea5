package flowcli

import (
	"encoding/json"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/flow"
)

// outlineOf gives the structure of a flow that the API showed, as those who draw want it.
func outlineOf(v *client.Flow) *flow.Outline {
	text, err := json.Marshal(v.Outline)
	if err != nil {
		return nil // plain fields: cannot fail
	}
	var o *flow.Outline
	if json.Unmarshal(text, &o) != nil {
		return nil // the same fields
	}
	return o
}

// recordsOf gives the atoms of a flow that the API showed, as those who draw want them: without values.
func recordsOf(v *client.Flow) []flow.Record {
	all := make([]flow.Record, len(v.Atoms))
	for i := range v.Atoms {
		a := &v.Atoms[i]
		all[i] = flow.Record{
			Name: a.Name, Kind: flow.Kind(a.Kind), Version: a.Version, State: a.State,
			Intention: flow.Intention(a.Intention), Attempts: a.Attempts, Tries: a.Tries,
			Due: a.Due, Awaits: a.Awaits, Waits: a.Waits, Progress: a.Progress, Began: a.Began, Ended: a.Ended,
			ExecuteBegan: a.ExecuteBegan, ExecuteEnded: a.ExecuteEnded,
			Failure: failureOf(a.Failure), RevertFailure: failureOf(a.RevertFailure),
			History: make(flow.History, a.History),
		}
	}
	return all
}

func failureOf(f *client.FlowFailure) *flow.Failure {
	if f == nil {
		return nil
	}
	return &flow.Failure{Type: f.Type, Message: f.Message}
}
