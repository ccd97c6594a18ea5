package flow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// Difference lists the differences between a flow and the flow whose records are stored.
type Difference struct {
	Added    []string
	Removed  []Removed
	Renamed  []Renamed // by [Task.Was]
	Versions []VersionChange
	Shape    []string // changed order, nesting and results of executed atoms, as sentences
	early    []string // added atoms before atoms that were executed
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

// Meaning lists the differences that affect executed atoms. It is empty if the flow can continue: new atoms at
// positions that the flow has not reached, and changes of atoms that have not run, are no differences of meaning.
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
			all = append(all, fmt.Sprintf("%s has version %s, and is %s under version %s",
				v.Name, v.New, v.State, v.Old))
		}
	}
	return append(all, d.Shape...)
}

// remedy lists the ways to accept the differences, for the message of a refusal.
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

// mostMeant bounds the number of differences in a message.
const mostMeant = 16

// AcceptChanges accepts every difference: stored atoms that the flow no longer has are kept unchanged; new ones run.
func AcceptChanges(*Difference) error { return nil }

func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}

// upgrade checks whether the changed flow may continue.
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
