package hooklog_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/engine/hooklog"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// breaking is a store whose nth replay fails.
type breaking struct {
	job.Store
	nth, calls int
}

func (b *breaking) Replay(ctx context.Context, now time.Time, keys ...string) ([]job.Message, error) {
	if b.calls++; b.calls == b.nth {
		return nil, job.Errorf(job.Unavailable, "replay", "", "the disk is slow")
	}
	return b.Store.Replay(ctx, now, keys...)
}

// TestReplayOfManyContinues: a replay of more notifications than one commit takes, which an error ends, states how many
// are due, and the next one replays the others, each once.
func TestReplayOfManyContinues(t *testing.T) {
	const all = 2500
	store := &breaking{Store: mem.New(), nth: 3}
	e, err := engine.New(store, []engine.Work{enginetest.Letters(nil)}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j := enginetest.Post(t, e, engine.Order{})
	now := e.Clock().Now()
	var messages []job.Message
	for i := range all {
		messages = append(messages, job.Message{Key: fmt.Sprintf("%s/%d", j.ID, i), Job: j.ID, Topic: "news",
			Body: []byte("{}"), Created: now, Due: now})
	}
	results, err := store.Commit(t.Context(), job.Change{Job: j.ID, Version: j.Version, At: now, Outbox: messages})
	if err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	for i := range messages {
		messages[i].Settled, messages[i].Attempts = job.Abandoned, 1
	}
	if err := store.Settle(t.Context(), messages...); err != nil {
		t.Fatal(err)
	}
	l := &hooklog.Log{Topic: "news", Engine: func() *engine.Engine { return e },
		Describe: func(json.RawMessage, *api.Hook) {}}
	request := api.ReplayHooks{Failed: true, Note: "the receiver is back", Actor: "ann"}
	_, err = l.Replay(t.Context(), request)
	if job.KindOf(err) != job.Unavailable || !strings.Contains(err.Error(), "2000 of 2500") ||
		!strings.Contains(err.Error(), "the disk is slow") {
		t.Errorf("got %v", err)
	}
	keys, err := l.Replay(t.Context(), request)
	if err != nil || len(keys) != 500 || store.calls != 4 {
		t.Errorf("the rest: %d keys after %d calls, %v", len(keys), store.calls, err)
	}
	if keys, err = l.Replay(t.Context(), request); err != nil || len(keys) != 0 {
		t.Errorf("in the end: %d keys, %v", len(keys), err)
	}
}
