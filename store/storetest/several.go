package storetest

import "github.com/stagepost/stagepost/job"

// Several makes a store of one process one that several servers may use, for tests of several servers in one process.
type Several struct{ job.Store }

// Properties state that the store is not exclusive.
func (s Several) Properties() job.Properties {
	p := s.Store.Properties()
	p.Exclusive = false
	return p
}
