package computecli

import (
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
)

// sayLeft reports that results are not all that the script left, or not under its names: how many, why, and the first
// of them.
func (c *commands) sayLeft(j *client.ComputeJob) {
	r := j.Results
	if r == nil || r.Skipped+r.Renamed == 0 || c.Out.Mode == cli.ModeJSON {
		return
	}
	p := c.Err
	p.Line("stagepost: %s: %s", j.ID, r.Sentence)
	for _, f := range r.Names {
		p.Line("  %s: %s", f.Name, f.Why)
	}
	if more := r.Skipped + r.Renamed - len(r.Names); more > 0 && len(r.Names) > 0 {
		p.Line("  ... and %d more", more)
	}
}

// sayNote prints what to know of a job that ended well, such as a child that was ended for its memory.
func (c *commands) sayNote(j *client.ComputeJob) {
	if e := j.Ending; e != nil && e.Note != "" && c.Out.Mode != cli.ModeJSON {
		c.Err.Line("stagepost: %s: %s", j.ID, e.Note)
	}
}
