// Package durable runs flows as jobs of kind "flow" ([flow.Life]) on [engine.Engine]: they survive the process that
// runs them, wait without a goroutine, and are moved, held, listed and explained like every other job.
//
//	factories := map[string]durable.Factory{"deploy": deploy}
//	flows, err := durable.New(durable.Options{Factories: factories, Blobs: durable.Dir("/var/lib/stagepost/flows")})
//	e, err := engine.New(store, []engine.Work{flows.Work()}, engine.Options{})
//	flows.Bind(e)                                                         // before e.Run
//	j, err := flows.Submit(ctx, e, durable.Order{Factory: "deploy"}) // compiled and validated before the job exists
//	err = flows.Signal(ctx, e, j.ID, durable.Signal{Name: "approved"}) // stored; wakes the flow
//	j, err = e.Do(ctx, operator.Act{Job: j.ID, Event: flow.Suspend, By: lifecycle.Owner, Actor: "ann"})
//	v, err := flows.View(ctx, e.Store(), j.ID)                            // structure, records, signals
//
// The job's record and its tasks are authoritative. Each atom is a task of the job ([job.Task]) of kind flow.task or
// flow.retry; each signal one of kind flow.signal; the structure one of kind flow.outline. One commit of the flow
// ([flow.Commit]) is one commit of the store, under the claim of the worker: a worker that lost the claim stores
// nothing more. Large values are files named for their digest ([Blobs]), written before the record that refers to them.
//
// How a flow moves:
//
//	PENDING --run--> RUNNING ... SUCCESS, FAILURE, REVERTED
//	    under one claim; each transition is stored with the atoms that it concerns
//	RUNNING, with waiting tasks only
//	    the claim ends (flow-signal, flow-time); a signal or the time makes the job due
//	RUNNING --suspend--> SUSPENDING --park--> SUSPENDED
//	    by a person; the worker keeps its claim until the running tasks have ended
//	RUNNING, found after a crash --resume--> RESUMING --park--> SUSPENDED --run--> RUNNING
//	    by one worker; a flow that a person was suspending stays SUSPENDED
//
// Run and reset are events of people: from SUSPENDED, FAILURE and SUCCESS a flow is run again; by a reset all atoms go
// back to PENDING in the same commit. A flow that is not the one that was begun ([flow.Options.Upgrade]) ends in
// FAILURE with cause "changed", and can be run again once the code is right. A worker without the flow's factory leaves
// it to others (flow-factory).
//
// Tasks run at least once: after a crash those that were active are executed again, with the same [flow.Call.Key].
package durable
