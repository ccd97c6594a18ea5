// Package custody has archives after they were made: it lists and reads them, finds the data of a person, and deletes
// archives by the rules of retention times, legal holds and two persons.
package custody

import (
	"errors"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/lifecycle"
)

// The event by which an archive job is deleted, and its state then.
const (
	Delete  lifecycle.Event = "delete"
	Deleted lifecycle.State = "Deleted"
)

// Options of [New]. All are required.
type Options struct {
	Catalog *catalog.Catalog
	Copies  *copies.Store
}

// Custody has the archives of a catalog. It is safe for concurrent use after Bind.
type Custody struct {
	o      Options
	engine *engine.Engine
}

// New makes the custody of a catalog.
func New(o Options) (*Custody, error) {
	if o.Catalog == nil || o.Copies == nil {
		return nil, errors.New("custody needs a catalog and storage locations")
	}
	return &Custody{o: o}, nil
}

// Bind connects it to the engine that runs the archive jobs.
func (c *Custody) Bind(e *engine.Engine) { c.engine = e }
