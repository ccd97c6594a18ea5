// Package lifecycle holds lifecycles as tables: the states a job can be in, the transitions between them, who may cause
// each transition, and a sentence for each. The table alone decides each move, live ([Table.Next]) and in replay
// ([Table.Replay]). Checks, diagrams, documents, buttons and test cases are derived from it.
//
// A [Stage] is one state with the transitions that leave it. The first stage of a table is the start. There are four
// kinds:
//
//	Queue  waits until a worker claims it
//	Work   a worker works on it under a claim
//	Wait   waits for a person, a timer, the engine or something outside
//	End    the job has ended; only an operator, retention or a restart leaves the state
//
// A [Position] has a job's state, the last state that it left by success, the state that its last failure left, and its
// outcome. Next computes all four from the transition; they are not set otherwise.
//
// Package draw draws tables, and package notation reads and writes them as text.
//
// The package uses the standard library only and does not depend on jobs, stores or engines.
package lifecycle
