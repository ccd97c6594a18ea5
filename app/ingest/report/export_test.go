package report

import (
	"maps"
	"slices"

	"github.com/stagepost/stagepost/lifecycle"
)

// Causes are those that the plain words know.
func Causes() []string { return slices.Sorted(maps.Keys(reasons)) }

// States are those that the plain words know.
var States = []lifecycle.State{
	statePending, stateHeld, stateEstimating, stateProvisioning, stateDownloading, stateProcessing, stateStoring,
	stateRecording, stateNotify,
	stateReporting, stateUpdateReporting, stateCompleted, stateFailed, stateDeleted,
}
