package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/format/noid"
	"github.com/stagepost/stagepost/internal/retryafter"
	"github.com/stagepost/stagepost/job"
)

// identify gets the object's ARK: the inventory has it by job, primary id or local id, or mints it. It is asked again
// after a crash and gives the same. While a service mints, the local ids are locked.
func (t *task) identify(ctx context.Context, p *profile.Profile, primary string, local []string) (inventory.Name,
	error) {
	c := inventory.Claim{
		Owner: p.Owner, Given: primary, LocalIDs: local, Template: p.Minter.NOID(), Stored: t.storedAnywhere(p.Storage),
		Depositor: t.spec.Submitter, Profile: p.ID, Permit: t.app.permit(t.spec.Bound, t.spec.Within),
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
	if err := t.lockPeers(ctx, n.Locks); err != nil {
		return n, err
	}
	mint := t.mintOutside
	if p.Minter.Form == profile.MinterEZID {
		mint = t.mintAtEZID
	}
	ark, err := mint(ctx, p)
	if err != nil {
		return n, err
	}
	locks := n.Locks
	n, err = t.app.locks.Settle(ctx, c, locks, ark)
	if err == nil {
		t.app.freed(locks...)
	}
	return n, t.waitFor(t.again(err))
}

// mintOutside asks the profile's minter by POST. The job is the idempotency key, so that a lost answer costs no second
// identifier.
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
		return "", &errCaused{cause: CauseMinter, again: retryafter.Passes(answer.StatusCode),
			err: fmt.Errorf("the minter answers %s", answer.Status)}
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

// Permit limits what is done for the owner of a user token to the objects that it deposited, and to those of the
// profiles that name it among their updaters. An empty user has no limit.
func (a *App) Permit(user string) Permit {
	p := Permit{User: user}
	if user == "" {
		return p
	}
	for _, id := range a.options.Profiles.IDs() {
		if one, ok := a.options.Profiles.Get(id); ok && one.Updates(user) {
			p.Profiles = append(p.Profiles, one.ID)
		}
	}
	return p
}

// permit is Permit, limited to the objects of collections; nil: it is not.
func (a *App) permit(user string, collections []string) Permit {
	p := a.Permit(user)
	if collections == nil {
		return p
	}
	p.Within = []string{}
	for _, id := range a.options.Profiles.IDs() {
		if one, ok := a.options.Profiles.Get(id); ok && slices.Contains(collections, one.Group()) {
			p.Within = append(p.Within, one.ID)
		}
	}
	return p
}

// mayUpdate refuses a submission that names an object which the user may not update, in the words for an object that
// does not exist. Identifiers in the payload are checked by the job.
func (a *App) mayUpdate(ctx context.Context, user string, p *profile.Profile, s *Submission) error {
	err := a.inventory.Permitted(ctx, a.permit(user, within(ctx)), p.Owner, s.PrimaryID, s.LocalIDs)
	if errors.Is(err, inventory.ErrUnknown) {
		return job.Errorf(job.NotFound, "submit", "", "%w", err)
	}
	return err
}

// permitted is what a user sees of the profiles: those that it may submit under, of the collections to which it is
// limited.
type permitted struct {
	profile.Source
	user   string
	within []string // collections; nil: all
}

func (p permitted) Get(id string) (*profile.Profile, bool) {
	one, ok := p.Source.Get(id)
	if !ok || p.user != "" && !one.Submits(p.user) || p.within != nil && !slices.Contains(p.within, one.Group()) {
		return nil, false
	}
	return one, true
}

func (p permitted) IDs() []string {
	return slices.DeleteFunc(slices.Clone(p.Source.IDs()), func(id string) bool { _, ok := p.Get(id); return !ok })
}
