package workers

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// TestOthers: a worker of another server counts as one that sends its requests here, as long as it and its server
// are not silent; the later of two requests decides.
func TestOthers(t *testing.T) {
	now := time.Unix(1e9, 0)
	clock := func() time.Time { return now }
	here, there := New(clock), New(clock)
	p := job.KindState{Kind: "test.letter", State: "Posted"}
	c := api.Claim{Worker: "coach", From: []job.KindState{p}, Labels: []string{"gpu"}}
	live := func(age time.Duration, shared Shared) []string {
		var o Others
		o.Add("there", shared, age)
		return here.With(&o).Takes(p, []string{"gpu"}).Live
	}
	there.Claims(&c)(nil)
	select {
	case <-there.News():
	default:
		t.Error("a new worker is no news")
	}
	shared := there.Share(api.WorkerInfo{Name: "there/1"})
	if !shared.New {
		t.Error("a server that began now is not new")
	}
	for age, want := range map[time.Duration][]string{0: {"coach"}, silentAfter: {"coach"}, silentAfter + 1: nil} {
		if got := live(age, shared); !cmp.Equal(got, want) {
			t.Errorf("announced %s ago: got %v, want %v", age, got, want)
		}
	}
	if got := here.Takes(p, nil).Live; len(got) > 0 {
		t.Errorf("the control: %v is known here", got)
	}
	now = now.Add(2 * time.Hour)
	if got := live(0, there.Share(api.WorkerInfo{})); len(got) > 0 {
		t.Errorf("a worker that is silent there takes jobs: %v", got)
	}
	here.Claims(&c)(nil)
	if got := live(0, there.Share(api.WorkerInfo{})); !cmp.Equal(got, []string{"coach"}) {
		t.Errorf("a worker that went over to this server: got %v", got)
	}
	var o Others
	o.Add("there", shared, silentAfter+1)
	if e := o.Engines(now); len(e) != 1 || e[0].State != api.WorkerSilent || o.New() {
		t.Errorf("a server that announces no more: %+v, new %t", e, o.New())
	}
}

// TestAgentsOfOthers: the agents of another server are listed with the time of their last answer. One that both servers
// have is as this one has it, unless it is silent here and answers there. Those of a silent server are silent.
func TestAgentsOfOthers(t *testing.T) {
	now := time.Unix(1e9, 0)
	agent := func(name, state string, ago time.Duration) api.WorkerInfo {
		return api.WorkerInfo{Name: name, State: state, Where: "agent", Slots: 2, Seen: now.Add(-ago)}
	}
	there := New(func() time.Time { return now })
	shared := there.Share(api.WorkerInfo{Name: "there/1"}, agent("z", api.WorkerIdle, time.Second),
		agent("b", api.WorkerIdle, time.Second), agent("a", api.WorkerBusy, time.Second),
		agent("c", api.WorkerSilent, time.Hour), api.WorkerInfo{Name: "d", State: api.WorkerSilent})
	text, err := json.Marshal(shared)
	if err != nil {
		t.Fatal(err)
	}
	own := []api.WorkerInfo{agent("b", api.WorkerBusy, 0), agent("z", api.WorkerSilent, time.Hour)}
	for age, want := range map[time.Duration][]api.WorkerInfo{
		silentAfter: {own[0], agent("z", api.WorkerIdle, time.Second+silentAfter),
			agent("a", api.WorkerBusy, time.Second+silentAfter), agent("c", api.WorkerSilent, time.Hour+silentAfter),
			{Name: "d", State: api.WorkerSilent}}, // it has not answered
		time.Hour: {own[0], own[1], agent("a", api.WorkerSilent, time.Second+time.Hour),
			agent("c", api.WorkerSilent, 2*time.Hour), {Name: "d", State: api.WorkerSilent}},
	} {
		var read Shared
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		var o Others
		o.Add("there", read, age)
		if diff := cmp.Diff(want, o.Agents(own, now)); diff != "" {
			t.Errorf("announced %s ago (-want +got):\n%s", age, diff)
		}
	}
	var none Others
	if got := none.Agents(own, now); !cmp.Equal(got, own) {
		t.Errorf("alone: got %+v", got)
	}
}
