package rules

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stagepost/stagepost/job"
)

// compared are the parts of writes that a store makes.
var compared = cmp.Options{cmpopts.IgnoreUnexported(Writes{}, JobWrite{}), cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(Writes{}, "Counters", "Holds")}

// simulate runs operations at random. Each is computed from what it needs, as spoil left that, and from all rows. It
// returns the first difference, and how many changes and creations succeeded and were refused.
func simulate(seed uint64, operations int, spoil func(*Needs)) (difference string, succeeded, refused int) {
	f := &fuzz{Rand: rand.New(rand.NewPCG(seed, 1)), s: newRows(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	var w Writes
	for i := range operations {
		o := f.operation()
		n, k := &Needs{}, &Known{Numbers: map[job.Kind]int64{}}
		for _, round := range o.rounds {
			round(n, k)
			spoil(n)
			f.s.read(n, k)
		}
		w.Reset(k) // with the memory of the operation before
		errs := o.rule(&w)
		var want Writes
		want.Reset(f.s.all())
		wantErrs := o.rule(&want)
		for _, err := range wantErrs {
			if err == nil {
				succeeded++
			} else {
				refused++
			}
		}
		diff := cmp.Diff(want, w, compared) + cmp.Diff(fmt.Sprint(wantErrs), fmt.Sprint(errs)) +
			cmp.Diff(want.Numbers(), w.Numbers(), cmpopts.EquateEmpty())
		if diff != "" {
			return fmt.Sprintf("operation %d, %s (-all rows +needed rows):\n%s", i, o.text, diff), succeeded, refused
		}
		f.s.write(&want)
	}
	return "", succeeded, refused
}

// What an operation needs is all that it depends on.
func TestNeedsAreComplete(t *testing.T) {
	for seed := range uint64(4) {
		difference, succeeded, refused := simulate(seed, 400, func(*Needs) {})
		if difference != "" {
			t.Errorf("seed %d: %s", seed, difference)
		}
		if succeeded < 100 || refused < 100 {
			t.Errorf("seed %d: %d succeeded and %d were refused: the test shows little", seed, succeeded, refused)
		}
	}
}

// The control: each part of what is needed makes a difference.
func TestNeedsAreNecessary(t *testing.T) {
	for name, spoil := range map[string]func(*Needs){
		"jobs":     func(n *Needs) { n.Jobs = nil },
		"keys":     func(n *Needs) { n.Keys = nil },
		"messages": func(n *Needs) { n.Messages = nil },
		"unsent":   func(n *Needs) { n.Unsent = nil },
		"children": func(n *Needs) { n.Children = nil },
		"numbers":  func(n *Needs) { n.Numbers = nil },
		"posted":   func(n *Needs) { n.Posted = false },
		"audited":  func(n *Needs) { n.Audited = false },
		"holds":    func(n *Needs) { n.Holds = false },
		"parents": func(n *Needs) {
			if n.Most > 0 { // the second round
				n.Jobs = nil
			}
		},
	} {
		found := false
		for seed := uint64(0); seed < 5 && !found; seed++ {
			difference, _, _ := simulate(seed, 400, spoil)
			found = difference != ""
		}
		if !found {
			t.Errorf("%s are not necessary", name)
		}
	}
}

// A rule changes nothing that is known, and gives the same again; a refused operation adds nothing.
func TestRulesArePure(t *testing.T) {
	f := &fuzz{Rand: rand.New(rand.NewPCG(7, 7)), s: newRows(), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	exported := cmp.AllowUnexported(Known{}, record{}, unsent{}, children{}, index[job.ID]{}, index[Key]{},
		index[string]{})
	for i := range 150 {
		o := f.operation()
		k := f.s.all()
		var first, again Writes
		first.Reset(k)
		errs := o.rule(&first)
		if diff := cmp.Diff(f.s.all(), k, exported, cmpopts.EquateErrors()); diff != "" {
			t.Fatalf("operation %d, %s: it changed what is known:\n%s", i, o.text, diff)
		}
		again.Reset(k)
		o.rule(&again)
		if diff := cmp.Diff(first, again, compared); diff != "" {
			t.Fatalf("operation %d, %s: another result:\n%s", i, o.text, diff)
		}
		if len(errs) == 1 && errs[0] != nil && (len(first.Jobs)+len(first.Messages)+len(first.Audits) > 0 ||
			first.Counters != k.Counters || len(first.Numbers()) > 0) {
			t.Fatalf("operation %d, %s: refused (%v), but it writes", i, o.text, errs[0])
		}
		f.s.write(&first)
	}
}
