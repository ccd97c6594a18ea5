package storetest

import (
	"testing"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Open opens an empty store that is closed when t ends. Reopen closes the store, as its process would by ending, and
// opens what is left; it is nil for a store whose Properties do not state Durable.
type Open = func(t *testing.T) (st job.Store, reopen func() job.Store)

// Run checks a store against the contract of job.Store, and against every state, event and actor of the lifecycles
// given and of two small ones.
func Run(t *testing.T, open func(t *testing.T) (store job.Store, reopen func() job.Store), lives ...*lifecycle.Table) {
	Some(t, 1, open)
	t.Run("Tables", func(t *testing.T) { Tables(t, open, append([]*lifecycle.Table{Step, Batch}, lives...)...) })
}

// Some is the part of [Run] that has the sentences of the contract, with each of a number: for a store that takes
// minutes for all of them, beside a Run of the same code in another form.
func Some(t *testing.T, each int, open Open) {
	n := 0
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			for _, one := range part.tests {
				if n++; n%each == 0 {
					t.Run(one.name, func(t *testing.T) { one.test(newHarness(t, open)) })
				}
			}
		})
	}
}

// Tables is the part of [Run] that takes every event by every actor in every state of the lifecycles through a store.
func Tables(t *testing.T, open Open, lives ...*lifecycle.Table) {
	for _, life := range lives {
		t.Run(life.Name(), func(t *testing.T) { everyMove(newHarness(t, open), life) })
	}
}

type part struct {
	name  string
	tests []test
}

type test struct {
	name string
	test func(*harness)
}

// parts are the methods of the contract, each with its sentences.
var parts = []part{
	{"Create", createTests}, {"Get", getTests}, {"List", listTests}, {"Word", wordTests}, {"Number", numberTests},
	{"Count", countTests}, {"History", historyTests},
	{"Claim", claimTests}, {"Label", labelTests}, {"Limit", limitTests}, {"Hold", holdTests}, {"Renew", renewTests},
	{"Commit", commitTests}, {"Stale", staleTests}, {"Chain", chainTests}, {"Children", childTests},
	{"Outbox", outboxTests}, {"Bounds", boundsTests},
	{"Watch", watchTests}, {"Own", ownTests}, {"Context", contextTests},
	{"Tag", tagTests}, {"Text", textTests}, {"Audit", auditTests}, {"Purge", purgeTests}, {"Ageing", ageingTests},
	{"Clock", clockTests},
	{"Histories", parallelTests}, {"Reopen", reopenTests},
}
