package computehttp

import (
	"cmp"
	"net/http"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// tunnelCompute gives the connection of an agent to the tunnel, which decides about it. An agent that uses the name of
// another is refused there by [AgentOf].
func (s *Handlers) tunnelCompute(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	p.Text("agent")
	if err := p.Err(); err != nil {
		return err
	}
	if s.ComputeTunnel == nil {
		return problem.Absent("tunnel", "this server runs no users' files, so no agent can join it", computeSettings)
	}
	s.ComputeTunnel.ServeHTTP(w, r)
	return nil
}

// AgentOf gives the name of the agent that a request of a tunnel comes from: the owner of its token, or without
// authentication the name in the request.
func AgentOf(r *http.Request) (name string, err error) {
	return cmp.Or(server.OwnerOf(r.Context()), r.URL.Query().Get("agent")), nil
}

// FailTunnel writes the refusals of a tunnel as all others are written.
func FailTunnel(w http.ResponseWriter, _ *http.Request, status int, err error) {
	kind, known := uploadKinds[status]
	if !known {
		kind = job.Invalid
	}
	p := problem.Of(job.Errorf(kind, "tunnel", "", "%w", err))
	p.Status = status
	writeProblem(w, p)
}
