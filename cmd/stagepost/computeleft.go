package main

import "github.com/stagepost/stagepost/client"

// sayLeft tells that results are not all that the script left, or not under its names: how many, why, and the first of them.
func (c *cli) sayLeft(j *client.ComputeJob) {
	r := j.Results
	if r == nil || r.Skipped+r.Renamed == 0 || c.out.mode == modeJSON {
		return
	}
	p := c.err
	p.line("stagepost: %s: %s", j.ID, r.Sentence)
	for _, f := range r.Names {
		p.line("  %s: %s", f.Name, f.Why)
	}
	if more := r.Skipped + r.Renamed - len(r.Names); more > 0 && len(r.Names) > 0 {
		p.line("  ... and %d more", more)
	}
}

// sayNote prints what to know of a job that ended well, such as a child that was ended for its memory.
func (c *cli) sayNote(j *client.ComputeJob) {
	if e := j.Ending; e != nil && e.Note != "" && c.out.mode != modeJSON {
		c.err.line("stagepost: %s: %s", j.ID, e.Note)
	}
}
