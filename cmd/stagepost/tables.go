package main

import (
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// humanEvents lists the events that an operator or owner may cause somewhere.
func (c *cli) humanEvents() []string {
	var all []string
	for _, t := range c.lives {
		for _, s := range t.Stages() {
			for _, a := range s.Arrows {
				if a.By&(lifecycle.Operator|lifecycle.Owner) != 0 && !slices.Contains(all, string(a.Event)) {
					all = append(all, string(a.Event))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

func (c *cli) lifeNames() []string {
	var names []string
	for _, t := range c.lives {
		names = append(names, t.Name())
	}
	return names
}

func (c *cli) findLife(name string) (*lifecycle.Table, error) {
	for _, t := range c.lives {
		if t.Name() == name {
			return t, nil
		}
	}
	return nil, job.Errorf(job.NotFound, "lifecycle", "", "there is no lifecycle %q (known: %s)", name, strings.Join(c.lifeNames(), ", "))
}

// stateNames lists the states of the program's lifecycles, each once.
func (c *cli) stateNames() []string {
	var states []string
	for _, t := range c.lives {
		for _, s := range t.Stages() {
			if !slices.Contains(states, string(s.State)) {
				states = append(states, string(s.State))
			}
		}
	}
	return states
}

// isEnd tells whether the program's lifecycles have the state as an end.
func (c *cli) isEnd(s lifecycle.State) bool {
	return slices.ContainsFunc(c.lives, func(t *lifecycle.Table) bool { return t.Ended(s) })
}
