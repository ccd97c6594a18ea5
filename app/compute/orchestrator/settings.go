package orchestrator

import (
	"cmp"
	"net"
	"net/http"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/job"
)

// Settings are those of the address for users of job-orchestrator.
type Settings struct {
	Listen string `name:"compute.listen" for:"serve" doc:"an address for users of job-orchestrator, such as 127.0.0.1:5000; defaults to none, or to PORT if its variables SERVICE_... are set"`
	Upload int64  `name:"compute.upload.bytes" for:"serve" unit:"bytes" default:"400MiB" doc:"size of one upload by users of job-orchestrator; uploads of the own API are bounded by upload.bytes"`
	Strict bool   `name:"compute.strict" for:"serve" default:"false" doc:"answers to users of job-orchestrator have exactly the fields and statuses of the original"`
}

// Title is part of serviceconfig.Users.
func (s *Settings) Title() string { return "users of job-orchestrator" }

// Address is part of serviceconfig.Users.
func (s *Settings) Address(port string) string {
	if port != "" {
		port = net.JoinHostPort("127.0.0.1", port)
	}
	return cmp.Or(s.Listen, port)
}

// Handler is part of serviceconfig.Users: it serves the user's API.
func (s *Settings) Handler(app *compute.App, store job.Store, o serviceconfig.UsersOptions) http.Handler {
	strict := s.Strict || o.Strict && o.IsDefault("compute.strict")
	to := wire.Options{Log: o.Log, Refused: o.Refused, Limits: wire.Limits{Body: s.Upload}, Compat: compat(strict)}
	if o.Who != nil {
		to.Who = func(r *http.Request) (c wire.Caller, err error) {
			who, err := o.Who(r)
			return wire.Caller(who), err
		}
	}
	guard := wire.GuardOptions{Compat: to.Compat, Token: o.Who != nil, Hosts: o.Hosts}
	return wire.Guard(wire.Users(Users(app, store), to), guard)
}
