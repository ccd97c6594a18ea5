package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// historyOf returns a history with an entry for each event.
func historyOf(events ...string) []client.Event {
	var all []client.Event
	prev := job.Hash{}
	for i, name := range events {
		e := client.Event{Job: "let_1", Seq: int64(i + 1), Event: lifecycle.Event(name), By: lifecycle.Worker}
		e.Seal(prev)
		prev = e.Hash
		all = append(all, e)
	}
	return all
}

// TestWatchAfterRestore restores a backup between two connections: the reader is notified and gets the history anew,
// whether the restored one is shorter than what came, as long, or longer. Without a restore nothing comes twice.
func TestWatchAfterRestore(t *testing.T) {
	const before = "create begin stamp"
	for name, c := range map[string]struct{ after, want string }{
		"shorter":   {"create begin", "create begin stamp | create begin"},
		"as long":   {"create begin fail", "create begin stamp | create begin fail"},
		"longer":    {"create begin fail retry", "create begin stamp | create begin fail retry"},
		"unchanged": {before, before},
		"went on":   {before + " finish", before + " finish"},
	} {
		t.Run(name, func(t *testing.T) {
			now, streams := historyOf(strings.Fields(before)...), 0
			record := func(ended bool) client.Job {
				last := now[len(now)-1]
				return client.Job{Job: job.Job{ID: "let_1", Seq: last.Seq, Head: last.Hash, Ended: ended}}
			}
			api := serve(t, func(w http.ResponseWriter, r *http.Request) {
				text := func(v any) string {
					b, err := json.Marshal(v)
					if err != nil {
						t.Error(err)
					}
					return string(b)
				}
				switch {
				case strings.HasSuffix(r.URL.Path, "/history"):
					fmt.Fprint(w, text(client.History{History: now}))
					return
				case !strings.HasSuffix(r.URL.Path, "/events"):
					fmt.Fprint(w, text(record(true)))
					return
				}
				if streams++; streams == 2 {
					now = historyOf(strings.Fields(c.after)...)
				}
				var last int64
				fmt.Sscan(r.Header.Get("Last-Event-ID"), &last)
				w.Header().Set("Content-Type", "text/event-stream")
				for _, e := range now[min(last, int64(len(now))):] { // as the server does
					fmt.Fprintf(w, "id: %d\nevent: history\ndata: %s\n\n", e.Seq, text(e))
				}
				if streams == 2 {
					fmt.Fprintf(w, "event: job\ndata: %s\n\n", text(record(true)))
				}
			})
			var seen []string
			err := api.Watch(t.Context(), "let_1", 0, func(u client.Update) error {
				switch {
				case u.Event != nil:
					seen = append(seen, string(u.Event.Event))
				case u.Restored:
					seen = append(seen, "|")
				}
				return nil
			})
			if got := strings.Join(seen, " "); err != nil || got != c.want {
				t.Errorf("got %q, want %q, %v", got, c.want, err)
			}
		})
	}
}
