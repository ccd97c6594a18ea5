package api

import (
	"github.com/stagepost/stagepost/lifecycle"
)

// Lifecycles is the answer about which lifecycles the server knows.
type Lifecycles struct {
	Lifecycles []Lifecycle `json:"lifecycles"`
}

// Lifecycle is a lifecycle in short.
type Lifecycle struct {
	Name   string            `json:"name"`
	Hash   string            `json:"hash"`
	States []lifecycle.State `json:"states"`
	Events []lifecycle.Event `json:"events"`
	Jobs   bool              `json:"jobs"` // whether this server runs jobs of it
}
