package computehttp

import (
	"context"

	"github.com/stagepost/stagepost/api"
)

// computeHealth adds what confines the scripts that the server runs itself.
func (s *Handlers) computeHealth(_ context.Context, h *api.Health) {
	if s.Compute == nil {
		return
	}
	h.Sandbox = s.sandboxed()
	if h.Sandbox == "none" {
		h.Warnings = append(h.Warnings,
			"users' scripts run here without a sandbox: they may do what this server may (stagepost compute agent "+
				"doctor shows what is missing)")
	}
}

// sandboxed names what confines the scripts that the server runs itself; "" if it runs none.
func (s *Handlers) sandboxed() string {
	for _, a := range s.Compute.Agents() {
		if a.Name == localAgent {
			return a.Sandbox
		}
	}
	return ""
}

// localAgent is the agent that a server has in itself (package serviceconfig).
const localAgent = "local"
