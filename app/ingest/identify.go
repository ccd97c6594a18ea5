package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/format/noid"
)

// identify gets the object's ARK: the inventory knows it by job, primary id or local id, or mints it. It is asked again after a crash and
// gives the same. While a service mints, the local ids are locked.
func (t *task) identify(ctx context.Context, p *profile.Profile, primary string, local []string) (inventory.Name, error) {
	c := inventory.Claim{
		Owner: p.Owner, Given: primary, LocalIDs: local, Template: p.Minter.NOID(), Stored: t.storedAnywhere(p.Storage),
		Depositor: t.spec.Submitter, Profile: p.ID, Permit: t.app.Permit(t.spec.Bound),
	}
	var n inventory.Name
	err := t.locked(ctx, func(by inventory.Taker) (err error) {
		c.Taker = by
		n, err = t.app.locks.Name(ctx, c)
		return err
	})
	if err != nil || n.ARK != "" {
		return n, t.waitFor(t.again(err))
	}
	ark, err := t.mintOutside(ctx, p)
	if err != nil {
		return n, err
	}
	locks := n.Locks
	n, err = t.app.locks.Settle(ctx, c, locks, ark)
	if err == nil {
		t.app.line.freed(locks...)
	}
	return n, t.waitFor(t.again(err))
}

// mintOutside asks the profile's minter by POST. The job is the idempotency key, so that a lost answer costs no second identifier.
func (t *task) mintOutside(ctx context.Context, p *profile.Profile) (string, error) {
	body, err := json.Marshal(map[string]string{"job": string(t.Job().ID), "profile": p.ID, "owner": p.Owner})
	if err != nil {
		return "", err
	}
	address, err := p.Minter.Address()
	if err != nil {
		return "", &errCaused{cause: CauseMinter, again: true, err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return "", fail(CauseMinter, "%w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", string(t.Job().ID))
	answer, err := t.app.options.Outward.Do(req)
	if err != nil {
		return "", &errCaused{cause: CauseMinter, again: true, err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return "", &errCaused{cause: CauseMinter, again: true, err: err}
	}
	if answer.StatusCode/100 != 2 {
		return "", &errCaused{cause: CauseMinter, again: passing(answer.StatusCode), err: fmt.Errorf("the minter answers %s", answer.Status)}
	}
	ark, err := noid.ParseARK(mintedARK(text))
	if err != nil {
		return "", fail(CauseBadIdentifier, "the minter gave no ARK: %w", err)
	}
	return ark.String(), nil
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// mintedARK takes the ARK out of a minter's answer: {"ark": "..."}, or the text itself.
func mintedARK(text []byte) string {
	var answer struct {
		ARK string `json:"ark"`
	}
	if json.Unmarshal(text, &answer) == nil && answer.ARK != "" {
		return answer.ARK
	}
	return strings.TrimSpace(string(text))
}

// passing tells whether a later call may be answered otherwise.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}
