package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/job"
)

// News is the body of a callback.
type News struct {
	Job       job.ID   `json:"job"`
	Batch     job.ID   `json:"batch"`
	State     string   `json:"state"` // Completed: everything but this call is done
	ARK       string   `json:"ark"`
	Version   int      `json:"version"`
	LocalIDs  []string `json:"local_ids"`
	Title     string   `json:"title"`
	Files     int      `json:"files"`
	Bytes     int64    `json:"bytes"`
	Submitter string   `json:"submitter"`
	Profile   string   `json:"profile"`
}

// notify is the step of Notify: it tells the profile's callback. When that was refused, or did not answer until the attempts are used up,
// the job completes with a warning, unless the profile requires the callback. Then the work directory goes.
func (t *task) notify(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	t.data.Warning = ""
	if p.Callback != nil {
		if err := t.tell(ctx, p); err != nil {
			if ctx.Err() != nil {
				return err
			}
			var e *errCaused
			if again := errors.As(err, &e) && e.again; again && !t.Last() {
				return err
			}
			if p.Callback.Required {
				return fail(CauseCallback, "the callback did not take the news: %w", err)
			}
			t.data.Warning = "WARNING: could not make callback: " + err.Error()
			t.Log().Warn("callback given up", "error", err)
		}
	}
	t.conclude()
	t.app.room.spend(t.Job().ID, 0)
	return t.app.discard(t.Job().Parent, t.Job().ID)
}

// tell calls the callback once, signed as Standard Webhooks has it.
func (t *task) tell(ctx context.Context, p *profile.Profile) error {
	j := t.Job()
	who, version := t.data.object()
	news := News{
		Job: j.ID, Batch: j.Parent, State: string(Completed), Version: version, Files: t.data.Files, Bytes: t.data.Size,
		Submitter: t.spec.Submitter, Profile: p.ID,
	}
	if who != nil {
		news.ARK, news.LocalIDs, news.Title = who.ARK, who.LocalIDs, who.Title
	}
	body, err := json.Marshal(news)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Callback.URL, bytes.NewReader(body))
	if err != nil {
		return &errCaused{cause: CauseCallback, err: err}
	}
	secret, err := webhook.ParseSecret(string(p.Callback.Secret))
	if err != nil { // any other text is the key itself
		secret = webhook.RawSecret(string(p.Callback.Secret))
	}
	webhook.SetHeader(req.Header, t.Key(), t.app.engine.Clock().Wall(), body, secret)
	req.Header.Set("Idempotency-Key", t.Key())
	answer, err := t.app.options.Outward.Do(req)
	if err != nil {
		return &errCaused{cause: CauseCallback, again: true, err: err}
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer)) // the status decides; reading lets the connection be used again
	if answer.StatusCode/100 != 2 {
		return &errCaused{cause: CauseCallback, again: passing(answer.StatusCode), err: fmt.Errorf("the callback answers %s", answer.Status)}
	}
	return nil
}
