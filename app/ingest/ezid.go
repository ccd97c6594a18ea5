package ingest

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/ezid"
	"github.com/stagepost/stagepost/format/erc"
	"github.com/stagepost/stagepost/format/noid"
)

func (t *task) ezid(p *profile.Profile) (*ezid.Client, error) {
	address, err := p.Minter.Address()
	if err != nil {
		return nil, &errCaused{cause: CauseMinter, again: true, err: err}
	}
	return &ezid.Client{Shoulder: address, HTTP: t.app.options.Outward}, nil
}

// mintAtEZID mints a reserved identifier: the description follows, and publishes it. One whose answer is lost stays
// reserved.
func (t *task) mintAtEZID(ctx context.Context, p *profile.Profile) (string, error) {
	c, err := t.ezid(p)
	if err != nil {
		return "", err
	}
	text, err := c.Mint(ctx, owned(p, []ezid.Element{{Name: ezid.Profile, Value: "erc"}}))
	if err != nil {
		return "", refusedByEZID(err)
	}
	ark, err := noid.ParseARK(text)
	if err != nil {
		return "", fail(CauseBadIdentifier, "EZID gave no ARK: %w", err)
	}
	return ark.String(), nil
}

// register sends the description and the target of an object to EZID, if that mints for the profile. It may be
// repeated.
func (t *task) register(ctx context.Context, p *profile.Profile, who *record.Identity) error {
	if p.Minter.Form != profile.MinterEZID {
		return nil
	}
	c, err := t.ezid(p)
	if err != nil {
		return err
	}
	var record strings.Builder
	if err := erc.Write(&record, ercOf(who)); err != nil {
		return fail(CauseBadMetadata, "the record for EZID: %w", err)
	}
	_, lines, _ := strings.Cut(record.String(), "\n") // the line erc: is the name of the element
	about := owned(p, []ezid.Element{
		{Name: ezid.Profile, Value: "erc"}, {Name: "erc", Value: strings.TrimSuffix(lines, "\n")},
	})
	if p.Minter.Status == ezid.Reserved || p.Administrative() {
		about = append(about, ezid.Element{Name: ezid.Status, Value: ezid.Reserved},
			ezid.Element{Name: ezid.Export, Value: "no"})
	} else {
		about = append(about, ezid.Element{Name: ezid.Status, Value: ezid.Public})
	}
	if p.Minter.Target != "" && !t.handed.RetainTarget {
		about = append(about, ezid.Element{Name: ezid.Target, Value: p.Minter.Target + url.QueryEscape(who.ARK)})
	}
	return refusedByEZID(c.Update(ctx, who.ARK, about))
}

// owned adds the owner of the identifiers.
func owned(p *profile.Profile, about []ezid.Element) []ezid.Element {
	if p.Minter.Coowner == "" {
		return about
	}
	return append(about, ezid.Element{Name: ezid.Owner, Value: p.Minter.Coowner})
}

// refusedByEZID gives an error its cause. What is no answer may pass.
func refusedByEZID(err error) error {
	if err == nil {
		return nil
	}
	var refused *ezid.Error
	again := !errors.As(err, &refused) || refused.Temporary()
	return &errCaused{cause: CauseMinter, again: again, err: err}
}
