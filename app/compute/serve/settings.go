// Package computeserve opens compute in a server.
package computeserve

import (
	"time"

	"github.com/stagepost/stagepost/app/compute/serviceconfig"
)

// Settings are those of compute.
type Settings struct {
	Module serviceconfig.Module // completes compute: compatibility with another system; the zero Module is none

	Local     int           `name:"compute.local" for:"serve" zero:"0" default:"0" doc:"jobs (users' scripts) that this server runs itself at once, in its sandbox; 0: it runs none, and has agents for them or does not compute"`
	Sandbox   string        `name:"compute.sandbox" for:"serve" choices:"auto native bwrap none require" default:"require" doc:"what confines the jobs that this server runs itself: auto takes the best that works, require the same but never none"`
	Services  string        `name:"compute.services" for:"serve" doc:"file of the services and the agents that serve them (YAML); defaults to one service, default, with compute.local"`
	Keep      time.Duration `name:"compute.keep" for:"serve" zero:"unlimited" default:"48h" doc:"how long the files of a job are kept after its end (MAX_AGE); unlimited: until the job is cleaned"`
	UserBytes int64         `name:"compute.user.bytes" for:"serve" zero:"unlimited" unit:"bytes" default:"unlimited" doc:"files that one user may have here; unlimited: any number of bytes"`
	Retries   int           `name:"compute.retries" for:"serve" default:"5" doc:"attempts to hand a job over to an agent; 1: the job fails after the first, as with job-orchestrator"`
	RetryFor  time.Duration `name:"compute.retry.for" for:"serve" default:"2m" doc:"time over which these attempts are spread"`
	Lost      time.Duration `name:"compute.lost" for:"serve" default:"1h" doc:"how long an agent may be silent before a job that it has counts as lost"`
	TESImages string        `name:"compute.tes.images" for:"serve" list:"," doc:"images of GA4GH TES tasks and the services that run them, with commas between them, such as ubuntu:24.04=small,*=default; defaults to none: no such tasks are taken"`
	TESOutput string        `name:"compute.tes.outputs" for:"serve" list:"," doc:"directories, with commas between them, to which any TES task may have outputs copied by file://, over what is there; defaults to none"`
	TESRoots  string        `name:"compute.tes.roots" for:"serve" list:"," doc:"directories, with commas between them, from which any TES task may take inputs by file://; defaults to none"`
}

// address gives the address for users of another system; "": none. port is that of the environment.
func (s *Settings) address(port string) string {
	if s.Module.Users == nil {
		return ""
	}
	return s.Module.Users.Address(port)
}
