package host

import (
	"slices"
	"time"

	"github.com/stagepost/stagepost/module"
)

// warnings collects the warnings of all parts, those of the applications first.
func (r *Server) warnings(s *Settings) (all []string) {
	for _, a := range slices.Backward(r.apps) {
		if w, ok := a.(module.Warner); ok {
			all = append(all, w.Warn()...)
		}
	}
	all = slices.Concat(all, s.mailWarnings(), s.storeWarnings())
	if r.backups != nil {
		all = append(all, r.backups.warnings(time.Now())...)
	}
	if r.anchors != nil {
		all = append(all, r.anchors.Warnings(time.Now())...)
	}
	if r.signed != nil {
		all = append(all, r.signed.Warnings()...)
	}
	if r.authority != nil {
		all = append(all, r.authority.Warnings()...)
	}
	if r.store.Nodes != nil {
		all = append(all, r.store.Nodes.Warnings()...)
	}
	return all
}
