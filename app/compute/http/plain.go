package computehttp

import (
	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
)

// plainWaits are sentences for users about what a job waits for, by the codes of its reasons.
var plainWaits = map[string]string{
	"agents-full":     "all computers for it are in use: it begins when one is free",
	"agents-drained":  "the computers for it take nothing new at the moment: it begins when they do again",
	"agents-starting": "it begins in a moment: the server has just started",
	"agents-small": "no computer has as much as it may use: run it again with lower limits, or ask those who run the " +
		"server",
	"agents-labels": "no computer has the labels that it requires: run it again without them, or ask those who run " +
		"the server",
	"agent-space":   "no computer has enough space for its files at the moment: it begins when one has",
	"no-agent":      "no computer for it can be reached at the moment: it is tried again by itself",
	"agent-silent":  "the computer that has it does not answer at the moment: it goes on when it answers",
	"agent-backoff": "it could not be handed over to a computer: it is tried again by itself",
	"disk":          "there is no space for its results at the moment: they are fetched when there is",
}

// plainly gives the jobs of a list for a user their messages in plain words.
func (s *Handlers) plainly(page *api.ComputePage) {
	for i := range page.Jobs {
		j := &page.Jobs[i]
		if words := s.PlainOf(compute.JobKind, j.Cause); words != "" && !j.Ended && j.Message != "" {
			j.Message = words
		}
	}
}
