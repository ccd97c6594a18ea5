package tes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// State is a state of a task.
type State string

// The states of the standard. No job is ever Paused.
const (
	Unknown       State = "UNKNOWN"
	Queued        State = "QUEUED"
	Initializing  State = "INITIALIZING"
	Running       State = "RUNNING"
	Paused        State = "PAUSED"
	Complete      State = "COMPLETE"
	ExecutorError State = "EXECUTOR_ERROR"
	SystemError   State = "SYSTEM_ERROR"
	Canceled      State = "CANCELED"
	Preempted     State = "PREEMPTED"
	Canceling     State = "CANCELING"
)

var states = []State{Unknown, Queued, Initializing, Running, Paused, Complete, ExecutorError, SystemError, Canceled,
	Preempted, Canceling}

// ParseState reads a state.
func ParseState(text string) (State, error) {
	if s := State(strings.ToUpper(text)); slices.Contains(states, s) {
		return s, nil
	}
	return "", fmt.Errorf("there is no state %.40q: it is one of %v", text, states)
}

// own are the causes that lie in what the executors did; every other one lies in the system.
var own = []string{compute.CauseExit, compute.CauseSignal, compute.CauseMemory, compute.CauseTimeout, compute.CauseCPU,
	compute.CauseDisk, compute.CauseDepth}

// StateOf gives the state of a task whose job is in a state for a cause. For one that was cleaned ask with [Last].
func StateOf(s lifecycle.State, cause string) State {
	switch s {
	case compute.Queued:
		if cause == compute.WaitsForInputs {
			return Initializing
		}
		return Queued
	case compute.Processing, compute.Submitted, compute.Prepared:
		return Initializing
	case compute.Running, compute.Retrieving:
		return Running
	case compute.Killing:
		return Canceling
	case compute.Completed:
		return Complete
	case compute.Killed:
		if cause == compute.CauseTimeout { // its time limit ended it, no user cancelled it
			return ExecutorError
		}
		return Canceled
	case compute.Failed:
		switch {
		case cause == compute.CausePreempt:
			return Preempted
		case slices.Contains(own, cause):
			return ExecutorError
		}
		return SystemError
	case compute.Invalid:
		return SystemError
	}
	return Unknown
}

// Where lists the states that jobs of tasks in a state may be in.
func Where(s State) []lifecycle.State {
	switch s {
	case Queued:
		return []lifecycle.State{compute.Queued}
	case Initializing:
		// queued, and its inputs are fetched
		return []lifecycle.State{compute.Queued, compute.Processing, compute.Submitted, compute.Prepared}
	case Running:
		// completed, and its outputs are being copied
		return []lifecycle.State{compute.Running, compute.Retrieving, compute.Completed}
	case Canceling:
		return []lifecycle.State{compute.Killing}
	case Complete:
		return []lifecycle.State{compute.Completed, compute.Cleaned}
	case ExecutorError:
		return []lifecycle.State{compute.Failed, compute.Killed, compute.Cleaned}
	case SystemError:
		return []lifecycle.State{compute.Failed, compute.Invalid, compute.Completed, compute.Cleaned}
	case Preempted:
		return []lifecycle.State{compute.Failed, compute.Cleaned}
	case Canceled:
		return []lifecycle.State{compute.Killed, compute.Cleaned}
	case Unknown:
		return []lifecycle.State{compute.Unknown}
	}
	return nil // Paused: none
}

// Last gives how a job ended whose files were cleaned since, out of its history.
func Last(history []job.Event) (s lifecycle.State, cause, sentence string) {
	for i := range history {
		if h := &history[i]; h.To != compute.Cleaned && h.To != h.From {
			s, cause, sentence = h.To, h.Cause, h.Note
		}
	}
	return s, cause, sentence
}
