package compute

import (
	"slices"

	"github.com/stagepost/stagepost/engine/cause"
)

// Causes lists what the cause of a job can be, sorted: how it ended, or what it waits for. Executors of other versions
// may give others.
func Causes() []string {
	all := []string{
		CauseExit, CauseSignal, CauseMemory, CauseTimeout, CauseCPU, CauseDisk, CauseDepth, CauseKilled, CauseRejected,
		CauseAgent, CauseLost, CauseNode, CausePreempt, CauseAgents, CauseResults, CauseInputs,
		causeStopped,
		blockFull, blockDrain, blockStart, blockSmall, blockLabels, blockAbsent, blockAgent, blockSilent, blockBackup,
		blockDisk, blockSpace, blockInputs,
		cause.Poison, cause.Panic, cause.Timeout, cause.Error, cause.Network,
		cause.Disk,
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// causeStopped is what agents report when they were stopped while it ran: CauseStopped of package agent, which imports
// this one.
const causeStopped = "agent-stopped"
