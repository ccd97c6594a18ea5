package computeserve

import (
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/serviceconfig"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
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

// TestSeveral lists before a migration what several servers refuse of the settings, and the jobs that the agent in the
// server has. The job of another agent is not listed, nor one that has ended.
func TestSeveral(t *testing.T) {
	store := mem.New()
	several := func(s Settings) string {
		t.Helper()
		texts, err := Several(&s)(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(texts, "\n")
	}
	create := func(id job.ID, at lifecycle.State, agent string) {
		t.Helper()
		j, e := job.New(job.Job{ID: id, Kind: compute.JobKind, Position: lifecycle.Position{State: at},
			Definition: compute.JobLife.Hash(), Ended: compute.JobLife.Ended(at),
			Tags: []string{compute.AgentTag(agent)}}, lifecycle.Owner, "ann", time.Unix(1e9, 0))
		if _, err := store.Create(t.Context(), job.Created{Job: j, Event: e}); err != nil {
			t.Fatal(err)
		}
	}
	create("cmp_1", compute.Running, "node7")
	create("cmp_2", compute.Completed, serviceconfig.Local)
	if got := several(Settings{}); got != "" {
		t.Errorf("control: got %s", got)
	}
	if got := several(Settings{Local: 2}); !strings.HasPrefix(got, "compute.local: ") {
		t.Errorf("the setting: got %s", got)
	}
	create("cmp_3", compute.Running, serviceconfig.Local)
	if got := several(Settings{}); !strings.HasPrefix(got, "1 job is with the agent in the server") ||
		!strings.Contains(got, "stagepost list --kind compute.job --tag agent=local") {
		t.Errorf("a job of the agent in the server: got %s", got)
	}
	create("cmp_4", compute.Unknown, serviceconfig.Local)
	if got := several(Settings{Services: t.TempDir() + "/missing.yaml"}); !strings.Contains(got, "2 jobs are with") ||
		!strings.Contains(got, "the services cannot be read: ") {
		t.Errorf("services that cannot be read: got %s", got)
	}
}
