// Package custom makes kinds of jobs from lifecycles in YAML files, without Go: remote workers work on their states
// over the API, or the server runs a command in a sandbox.
//
// A file is a table as [notation.ParseYAML] reads it, with these keys besides:
//
//	prefix: scan              # of the ids; defaults to the letters of the name
//	slots: 4                  # commands that run at once
//	keep: 30d                 # ended jobs, before the timer's transition out of their end; defaults to unlimited
//	adopts: [...]             # hashes of older definitions whose states all mean the same
//	limits:
//	  - {name: scanners, states: [Scanning], max: 2, per: owner}   # per: owner, group, or left out: in all
//	webhooks: {archive: https://...}   # where messages of workers go
//	work:                     # one entry for each queue and work state
//	  Waiting: {pass: true}   # the server takes the success event at once
//	  Scanning:
//	    worker: true          # remote workers claim it
//	    attempts: 3           # failed attempts before the failure exit
//	    backoff: {first: 1s, max: 5m}
//	    deadline: 2h          # in the state, waiting included
//	  Checking:
//	    command: [sh, -c, ./check]
//	    env: {LANG: C.UTF-8}
//	    timeout: 10m          # of one run
//	    exits: {3: reject, 4: retry}   # exit code to event, or retry, fail, success
//	    limits: {memory: 512MiB, disk: 1GiB, cpu: 5m, processes: 64}
//	    network: none         # or host
//
// A command runs in an empty directory with the file job.json, which is what a remote worker gets by a claim
// ([github.com/stagepost/stagepost/api.Leased]). Exit code 0 is the success event, another code that is not listed a
// failed attempt. It may write report.json, with the members of a remote worker's report except job and epoch: data,
// tasks, log, children and an outcome. Its output is the log of the job.
package custom
