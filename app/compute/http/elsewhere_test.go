package computehttp_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// board keeps announcements of servers in memory.
type board struct {
	mu   sync.Mutex // guards the rest
	text map[string][]byte
	age  time.Duration // of all
}

func (b *board) Announce(_ context.Context, name string, text []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text[name] = text
	return nil
}

func (b *board) Announced(_ context.Context, each func(string, []byte, time.Duration)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, text := range b.text {
		each(name, text, b.age)
	}
	return nil
}

// there has another server announce what this one does, with an agent of another name.
func (b *board) there(t *testing.T, c *computing, agent string) {
	t.Helper()
	b.mu.Lock()
	clear(b.text)
	b.mu.Unlock()
	if err := c.Server.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.text {
		b.text = map[string][]byte{"there": bytes.ReplaceAll(text, []byte("puppet"), []byte(agent))}
	}
}

// TestAgentsOfAllServers: the agents that another server of the store has are listed and drained as those of this
// server. One whose server announces no more does not answer. The control is the list without the other server.
func TestAgentsOfAllServers(t *testing.T) {
	b := &board{text: map[string][]byte{}}
	c := openCompute(t, func(_ *compute.Options, o *options) { o.Presence = b })
	c.runs(c.order(client.ComputeOrder{}).ID) // the agent has answered
	list := func() map[string]client.ComputeAgent {
		t.Helper()
		all, err := c.Client.ComputeAgents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]client.ComputeAgent{}
		for _, a := range all {
			by[a.Name] = a
		}
		return by
	}
	if all := list(); len(all) != 1 || all["puppet"].Server != "" {
		t.Fatalf("the control: %+v", all)
	}
	c.Problem(c.Request(http.MethodPost, "/api/v1/compute/agents/node7/drain", `{}`), http.StatusNotFound, job.NotFound)

	b.there(t, c, "node7")
	if a, own := list()["node7"], list()["puppet"]; !a.Up || a.Server != "there" || a.Slots != own.Slots ||
		a.Kind != own.Kind || a.Since.IsZero() || own.Server != "" {
		t.Errorf("got %+v beside %+v", a, own)
	}
	now, err := c.Client.DrainComputeAgent(t.Context(), "node7", true, client.Act{Actor: "op", Note: "disks"})
	if err != nil || !now.Draining || now.Server != "there" {
		t.Errorf("drain: %+v, %v", now, err)
	}
	if a := list()["node7"]; !a.Draining || a.Drain == nil || a.Drain.Who != "op" || list()["puppet"].Draining {
		t.Errorf("drained: %+v", a)
	}
	now, err = c.Client.DrainComputeAgent(t.Context(), "node7", false, client.Act{Actor: "op"})
	if err != nil || now.Draining || list()["node7"].Draining {
		t.Errorf("resume: %+v, %v", now, err)
	}

	b.mu.Lock()
	b.age = 2 * time.Minute
	b.mu.Unlock()
	if a := list()["node7"]; a.Up || !strings.Contains(a.Error, "there announced it 2m ago") {
		t.Errorf("a server that announces no more: %+v", a)
	}
	b.there(t, c, "puppet")
	if all := list(); len(all) != 1 || !all["puppet"].Up || all["puppet"].Server != "" {
		t.Errorf("an agent that both have: %+v", all)
	}
}
