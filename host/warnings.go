package host

import (
	"slices"
	"time"

	"github.com/stagepost/stagepost/module"
)

// warnings returns the function that collects the warnings of all parts, those of the applications first.
func (r *Server) warnings(s *Settings) func() []string {
	var parts []func() []string
	for _, a := range slices.Backward(r.apps) {
		if w, ok := a.(module.Warner); ok {
			parts = append(parts, w.Warn)
		}
	}
	parts = append(parts, s.mailWarnings, s.storeWarnings)
	if r.backups != nil {
		parts = append(parts, func() []string { return r.backups.warnings(time.Now()) })
	}
	if r.anchors != nil {
		parts = append(parts, func() []string { return r.anchors.Warnings(time.Now()) })
	}
	if r.authority != nil {
		parts = append(parts, r.authority.Warnings)
	}
	if r.store.Nodes != nil {
		parts = append(parts, r.store.Nodes.Warnings)
	}
	return func() (all []string) {
		for _, w := range parts {
			all = append(all, w()...)
		}
		return all
	}
}
