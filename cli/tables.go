package cli

import (
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// HumanEvents lists the events that an operator or owner may cause somewhere.
func (c *Call) HumanEvents() []string {
	var all []string
	for _, t := range c.Lives {
		for _, s := range t.Stages() {
			for _, a := range s.Transitions {
				if a.By&(lifecycle.Operator|lifecycle.Owner) != 0 && !slices.Contains(all, string(a.Event)) {
					all = append(all, string(a.Event))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

func (c *Call) LifeNames() []string {
	var names []string
	for _, t := range c.Lives {
		names = append(names, t.Name())
	}
	return names
}

func (c *Call) FindLife(name string) (*lifecycle.Table, error) {
	for _, t := range c.Lives {
		if t.Name() == name {
			return t, nil
		}
	}
	return nil, job.Errorf(job.NotFound, "lifecycle", "", "there is no lifecycle %q (known: %s)", name,
		strings.Join(c.LifeNames(), ", "))
}

// StateNames lists the states of the program's lifecycles, each once.
func (c *Call) StateNames() []string {
	var states []string
	for _, t := range c.Lives {
		for _, s := range t.Stages() {
			if !slices.Contains(states, string(s.State)) {
				states = append(states, string(s.State))
			}
		}
	}
	return states
}

// isEnd reports whether the program's lifecycles have the state as an end.
func (c *Call) isEnd(s lifecycle.State) bool {
	return slices.ContainsFunc(c.Lives, func(t *lifecycle.Table) bool { return t.Ended(s) })
}
