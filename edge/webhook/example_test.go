package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/stagepost/stagepost/edge/webhook"
)

// A receiver verifies what it gets, remembers the ids that it has taken, and answers 2xx. Whatever else it answers,
// the notification comes again later under the same id; 410 refuses further notifications.
func ExampleVerify() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	seen := map[string]bool{} // of a real receiver: on disk
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			return
		}
		id, err := webhook.Verify(r.Header, body, time.Now(), secret)
		if err != nil {
			http.Error(w, "not signed by us", http.StatusUnauthorized)
			return
		}
		if !seen[id] {
			seen[id] = true
			var event webhook.Event
			if err := json.Unmarshal(body, &event); err != nil {
				http.Error(w, "no event", http.StatusBadRequest)
				return
			}
			fmt.Printf("%s: %s of %s: %s\n", id, event.Type, event.Source, event.Data)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()

	origin, id := webhook.Origin{Installation: "q7h2", Application: "ingest"}, "bat_1/5/batch-completed"
	body, err := origin.Event(id, "batch.completed", "bat_1", time.Unix(1795449600, 0), map[string]int{"files": 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	sender := webhook.NewSender(webhook.Options{})
	for range 2 { // at least once may be twice
		err = sender.Send(context.Background(), receiver.URL, id, time.Now(), body, secret)
		fmt.Println("taken:", err == nil)
	}
	// Output:
	// bat_1/5/batch-completed: io.github.stagepost.ingest.batch.completed of stagepost://q7h2/ingest: {"files":3}
	// taken: true
	// taken: true
}
