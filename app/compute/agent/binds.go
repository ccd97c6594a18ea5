package agent

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
)

// lacks reports what of the paths and the network that a server counts on payloads do not get here; empty: nothing.
// What they may read is for the agent's owner to define: a server's request adds nothing to it, and a payload that
// would lack something is refused instead of being run without it.
func (a *App) lacks(p *compute.Parcel, s *Service) string {
	open := a.options.Sandbox == sandbox.None // they see what the agent's user sees, where it is
	for _, bind := range p.Binds {
		from, to, renamed := strings.Cut(bind, ":")
		from, to = filepath.Clean(from), filepath.Clean(cmp.Or(to, from))
		if open && (!renamed || from == to) || shows(s.Binds, from, to) {
			continue
		}
		setting := fmt.Sprintf("binds: [%q] for the service in the file of stagepost compute agent --services", bind)
		if from == to && a.options.Setting != nil {
			setting += ", or " + a.options.Setting(p.Service, from) + " in its environment"
		}
		return fmt.Sprintf("the server's settings show %s to jobs of %s, and this agent's do not; its owner can "+
			"allow it: %s", bind, p.Service, setting)
	}
	if p.Network == "host" && s.Network != "host" && !open {
		return fmt.Sprintf("the server's settings give jobs of %s the machine's network, and this agent's do not; "+
			"its owner can allow it: network: host for the service in the file of stagepost compute agent --services",
			p.Service)
	}
	return ""
}

// shows reports whether a path of the machine is shown at that path, by itself or within one that is.
func shows(binds []sandbox.Bind, from, to string) bool {
	for _, b := range binds {
		below, err := filepath.Rel(b.From, from)
		if err == nil && below != ".." && !strings.HasPrefix(below, "../") &&
			filepath.Join(cmp.Or(b.To, b.From), below) == to {
			return true
		}
	}
	return false
}
