package cli

import (
	"strings"

	"github.com/stagepost/stagepost/job"
)

// ReasonsRequired reports whether staff must give reasons.
func (s *Common) ReasonsRequired() bool { return s.Reasons == "required" }

// Reasoned refuses a change of a data directory that no server works on, as the server would: without a reason, where
// reasons are required.
func (c *Call) Reasoned(note string) error {
	if !c.Settings.ReasonsRequired() || strings.TrimSpace(note) != "" {
		return nil
	}
	return job.Errorf(job.Invalid, "reason", "",
		"the configuration requires a reason for what staff does (setting reasons: required): give one with --note WHY")
}
