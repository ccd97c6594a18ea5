package agent

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/job"
)

// endingOf reports how a command ended in the words of payloads.
func endingOf(e *sandbox.Ending) *compute.Ending {
	ending := &compute.Ending{
		Exit: e.Exit, Signal: e.Signal, Cause: string(e.Cause), Sentence: e.Sentence, WallMS: e.Wall.Milliseconds(),
		CPUMS:  e.CPU.Milliseconds(),
		Memory: e.PeakMemory, Disk: e.DiskUsed, LogCut: e.Cut,
	}
	if e.Cause == sandbox.Itself && e.Exit != 0 {
		ending.Cause = compute.CauseExit
	}
	if e.Starved > 0 && ending.Cause == "" {
		ending.Note = fmt.Sprintf("processes of it were ended for memory: %d", e.Starved)
	}
	return ending
}

// environment makes a payload's environment: the service's, over it its own, over that the variables that identify it.
func environment(id job.ID, s *Spec, service *Service) []string {
	identity := map[string]string{"JOB_ID": cmp.Or(string(s.Job), string(id)), "SERVICE": s.Service}
	all := compute.Environ(service.Env, s.Env, identity)
	env := make([]string, 0, len(all))
	for name, value := range all {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

// limits are those of one command. No one gets more memory than all payloads together may have, so that the machine
// keeps the rest.
func (a *App) limits(l compute.Limits) sandbox.Limits {
	if l.Memory == 0 {
		l.Memory = max(0, a.options.Memory)
	}
	return sandbox.Limits{
		Wall: l.Wall, CPU: l.CPU, Memory: l.Memory, Disk: l.Disk, Output: l.Output, Processes: l.Processes,
		Cores: l.Cores, Files: l.Files,
	}
}
