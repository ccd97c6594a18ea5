package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// Difference is what a flow differs in from the one whose records are stored (reliability rule R13).
type Difference struct {
	Added    []string
	Removed  []Removed
	Renamed  []Renamed // by [Task.Was]
	Versions []VersionChange
	// what of the order, nesting and results of atoms that have run is not as it is stored, as sentences
	Shape []string
	early []string // of the added: something after them has happened already
}

// Removed is a stored atom that the flow no longer has.
type Removed struct {
	Name  string
	Kind  Kind
	State lifecycle.State
}

// Renamed is an atom that is stored under another name.
type Renamed struct{ Old, New string }

// VersionChange is an atom that is stored with another version.
type VersionChange struct {
	Name, Old, New string
	State          lifecycle.State
}

func (d *Difference) empty() bool {
	return len(d.Added)+len(d.Removed)+len(d.Renamed)+len(d.Versions)+len(d.Shape) == 0
}

// Meaning lists in what the flow would not mean what it meant when it was begun; empty if it just goes on: new atoms at
// positions that were not reached, and whatever changed of atoms that have not run.
func (d *Difference) Meaning() []string {
	var all []string
	for _, name := range d.early {
		all = append(all, fmt.Sprintf("%s is new, and what comes after it has been done", name))
	}
	for _, r := range d.Removed {
		if r.State != Pending && r.State != Ignore && r.State != Reverted {
			all = append(all, fmt.Sprintf("%s is gone, and is %s", r.Name, r.State))
		}
	}
	for _, v := range d.Versions {
		if v.State != Pending && v.State != Ignore && v.State != Reverted {
			all = append(all, fmt.Sprintf("%s has version %s, and is %s under version %s", v.Name, v.New, v.State,
				v.Old))
		}
	}
	return append(all, d.Shape...)
}

// remedy states what somebody can do who meets a refusal.
func (d *Difference) remedy() string {
	var all []string
	if slices.ContainsFunc(d.Removed, func(r Removed) bool {
		return r.State != Pending && r.State != Ignore && r.State != Reverted
	}) {
		all = append(all, "a renamed task names its former name in Was")
	}
	if slices.ContainsFunc(d.Versions, func(v VersionChange) bool {
		return v.State != Pending && v.State != Ignore && v.State != Reverted
	}) {
		all = append(all, "a task whose results are still valid keeps its Version")
	}
	return strings.Join(append(all, "Options.Upgrade can accept the change (AcceptChanges accepts every change)"), "; ")
}

// mostMeant bounds the differences that a refusal lists.
const mostMeant = 16

// AcceptChanges goes on with whatever the flow has become: stored atoms that it no longer has are left as they are, new
// ones run.
func AcceptChanges(*Difference) error { return nil }

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}

// upgrade asks whether the flow may go on as it is now.
func (r *Runner) upgrade(d *Difference) error {
	for _, name := range d.Added {
		if r.gauge.unquiet[r.plan.byName[name]] > 0 {
			d.early = append(d.early, name)
		}
	}
	if r.o.Upgrade != nil {
		if err := r.o.Upgrade(d); err != nil {
			return &Error{Kind: ErrChanged, Text: "the flow " + r.plan.name + " has changed", Err: err}
		}
		return nil
	}
	if meaning := d.Meaning(); len(meaning) > 0 {
		return wrong(ErrChanged, nil, "the flow %s is not the one that was begun: %s%s. Remedy: %s",
			r.plan.name, strings.Join(meaning[:min(len(meaning), mostMeant)], "; "), more(len(meaning)-mostMeant),
			d.remedy())
	}
	return nil
}
