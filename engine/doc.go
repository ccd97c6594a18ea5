// Package engine moves jobs through their lifecycles: claim, gates, step, outcome, event, lifecycle, commit.
//
// An application passes in its [Work]: a lifecycle table, a [Step] for each state that somebody works on, policies,
// gates and limits. The engine has no table and no state by name.
//
//	claim (store) -> gates -> step(ctx, run) -> outcome -> event -> Life.Next -> commit (store)
//
// The truth is in the store: an engine can be killed at any moment, and another one goes on from the last commit. Steps
// therefore run at least once, and must be written so that running twice does no harm: [Run.Key] names the work,
// [Run.Fence] this attempt at it. A claim that ran out makes every later commit of its holder fail with kind Stale.
package engine
