package computeserve

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/module"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

// TestAloneOnly: what other servers of a store could not reach is refused with what to do instead. Control: on a store
// that one process owns, nothing is refused.
func TestAloneOnly(t *testing.T) {
	tunnel := &serviceconfig.Config{Agents: []serviceconfig.Agent{{Name: "far", Tunnel: true}}}
	for what, c := range map[string]struct {
		s    Settings
		all  *serviceconfig.Config
		want string
	}{
		"local agent":     {Settings{Local: 1}, &serviceconfig.Config{}, "stagepost compute agent"},
		"agent that came": {Settings{}, tunnel, "give it a URL"},
		"tasks of TES":    {Settings{TESImages: "image=service"}, &serviceconfig.Config{}, "compute.tes.images"},
		"nothing of it":   {Settings{}, &serviceconfig.Config{Agents: []serviceconfig.Agent{{Name: "near"}}}, ""},
	} {
		err := aloneOnly(&module.Host{Store: storetest.Several{Store: mem.New()}}, &c.s, c.all)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
		if err := aloneOnly(&module.Host{Store: mem.New()}, &c.s, c.all); err != nil {
			t.Errorf("%s, control: %v", what, err)
		}
	}
}
