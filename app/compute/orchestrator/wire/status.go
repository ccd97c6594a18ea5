package wire

import "strings"

// Status is one of the twelve words for a job that users and servers know.
type Status string

// The words as they stand in JSON. There is no "Cancelled".
const (
	Queued     Status = "Queued"
	Processing Status = "Processing"
	Submitted  Status = "Submitted"
	Prepared   Status = "Prepared"
	Running    Status = "Running"
	Cleaned    Status = "Cleaned"
	Completed  Status = "Completed"
	Failed     Status = "Failed"
	Invalid    Status = "Invalid"
	Unknown    Status = "Unknown"
	Locked     Status = "Locked"
	Killed     Status = "Killed"
)

// Statuses gives the twelve words in the original's order.
func Statuses() []Status {
	return []Status{Queued, Processing, Submitted, Prepared, Running, Cleaned, Completed, Failed, Invalid, Unknown,
		Locked, Killed}
}

// Known reports whether s is one of the twelve words, exactly as written in JSON.
func (s Status) Known() bool {
	for _, one := range Statuses() {
		if s == one {
			return true
		}
	}
	return false
}

// Stored is the word as the original's database has it: in lower case.
func (s Status) Stored() string { return strings.ToLower(string(s)) }

// Ended reports whether a job with this word changes no more, except that it is cleaned.
func (s Status) Ended() bool {
	switch s {
	case Completed, Failed, Invalid, Killed, Cleaned:
		return true
	}
	return false
}

// ParseStored parses a status of the original's database. Case does not matter; blanks are not trimmed, and any other
// text is Unknown.
func ParseStored(word string) Status {
	for _, one := range Statuses() {
		if strings.EqualFold(word, string(one)) {
			return one
		}
	}
	return Unknown
}

// Report is the word that an agent may report to a server. A server of the original copies it blindly: "Queued" would
// make it send the job again, and words that it does not poll for would leave the job where it is indefinitely. What
// has not ended is therefore Prepared or Running.
func (s Status) Report() Status {
	switch s {
	case Prepared, Running, Failed, Invalid, Killed, Cleaned:
		return s
	case Queued:
		return Prepared
	}
	return Running
}
