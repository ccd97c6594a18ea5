// Package engine moves jobs through their lifecycles: claim, gates, step, outcome, event, lifecycle, commit.
//
// An application passes in its [Work]: a lifecycle table, a [Step] for each state that is worked on, policies,
// gates and limits. The engine itself names no table and no state.
//
//	claim (store) -> gates -> step(ctx, run) -> outcome -> event -> Life.Next -> commit (store)
//
// All state is in the store: an engine can be killed at any moment, and another one continues from the last commit. A
// step therefore runs at least once and must be safe to repeat: [Run.Key] names the work, [Run.Fence] this attempt at
// it. After a claim has expired, every commit of its holder fails with kind Stale.
package engine
