// Package lifecycle holds lifecycles as tables: the states a job can be in, the transitions between them, who may cause
// each transition, and a sentence for each. A table is the only checker of a move, live ([Table.Next]) and in replay
// ([Table.Replay]); checks, diagrams, documents, buttons and test cases are derived from it.
//
// A [Stage] is one state with the transitions that leave it. The first stage of a table is the start. There are four
// kinds:
//
//	Queue  waits until a worker picks it up and takes the first check
//	Work   a worker works on it under a claim
//	Wait   waits for a person, a timer, the engine or something outside
//	End    nothing is left to do; it may be left only by an operator, by retention or by a restart
//
// A [Position] is where a job stands: its state, the last state it left by success, the state its last failure left,
// and its outcome. Next computes all four from the transition; no one assigns a state.
//
// Package draw draws tables, and package notation reads and writes them as text.
//
// The package uses the standard library only and has no knowledge of jobs, stores or engines.
package lifecycle
