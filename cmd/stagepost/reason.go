package main

import (
	"strings"

	"github.com/stagepost/stagepost/job"
)

// reasonsRequired tells whether staff must give reasons.
func (s *settings) reasonsRequired() bool { return s.Reasons == "required" }

// reasoned refuses a change of a data directory that no server works on, as the server would: without a reason, where reasons are required.
func (c *cli) reasoned(note string) error {
	if !c.settings.reasonsRequired() || strings.TrimSpace(note) != "" {
		return nil
	}
	return job.Errorf(job.Invalid, "reason", "", "the configuration wants a reason for what staff does (setting reasons: required): give one with --note WHY")
}
