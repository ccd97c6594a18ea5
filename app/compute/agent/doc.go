// Package agent runs payloads: what a server submits is received, waits for capacity, is run confined, and its results
// are kept until the server has them.
//
// It is an application on the engine, as all others. On a machine of its own it has a store and an engine to itself and
// speaks HTTP ([App.Handler], and [Dial] on the other side); inside a server it shares the server's engine and is
// called directly ([App.Local]).
//
//	Dir/instance            name of the agent's memory
//	Dir/stage/...           parcels that are being received
//	Dir/payloads/PAYLOAD/   one payload: job/ (the directory in which run.sh works), stdout, stderr, exit.json,
//	                        results.zip, results.json
//
// The record in the store is the truth about a payload; of one that ended, exit.json reports how, and it is written
// before anything else (reliability hole J8). A directory without a record is what a crash left, and is removed at the
// next start.
//
// A payload is run at most once. The step for Prepared moves it to Running by a commit and goes on in the same call;
// the step for Running is therefore only called for a payload that an earlier step began to run and did not conclude:
// it finishes from exit.json, or reports that the agent ended. Package sandbox ends the processes of a payload with the
// agent.
package agent
