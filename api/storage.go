package api

import (
	"time"
)

// StorageLocation is a directory in which objects are stored.
type StorageLocation struct {
	Dir          string    `json:"dir"`                    // as profiles name it
	Path         string    `json:"path"`                   // on the server
	Location     string    `json:"location,omitempty"`     // id that its file names
	Installation string    `json:"installation,omitempty"` // that owns it
	Since        time.Time `json:"since,omitzero"`
	State        string    `json:"state"`            // usable, unused or refused
	Reason       string    `json:"reason,omitempty"` // why it is refused
	Remedy       string    `json:"remedy,omitempty"` // what to do then
	Profiles     []string  `json:"profiles"`         // that name it
}

// StorageLocations is the answer about storage locations.
type StorageLocations struct {
	Locations []StorageLocation `json:"locations"`
}

// Adoption is the body that gives a storage location to the installation.
type Adoption struct {
	Dir   string `json:"dir"`
	Note  string `json:"note"` // why; must not be empty
	Actor string `json:"actor,omitempty"`
}
