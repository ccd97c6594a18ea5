package layout

import (
	"fmt"
	"time"
)

// TimeFormat is the format of last_modified, in the local zone of the writer.
const TimeFormat = "2006-01-02 15:04:05 -0700"

// The keys of status nodes. KeyOperation and KeyExpected are Stagepost's own; other programs keep them.
const (
	keyStatus   = "status"
	keyLast     = "last_successful_status"
	keyModified = "last_modified"
	keyRetries  = "retry_count"
	keyMessage  = "message"

	KeyOperation = "stagepost_operation" // id of the operation that wrote the node last
	KeyExpected  = "stagepost_expected"  // number of jobs of a batch, once it is known
)

// Messages of the original daemons.
const (
	MessageSuccess      = "Success"
	MessageBatchFailure = "Batch failure"
)

// JobStatus is the data of the status of a job. Other fields of the object are kept.
type JobStatus struct {
	Status Status
	// the last state that succeeded, "" if there is none. The Java library writes "Failed" after a retry, and a release
	// leaves "Held": see Resume
	Last Status
	// as written. The Ruby library does not update it: the mtime of its node is the age of a status
	Modified time.Time
	Retries  int
	Message  string
	Other    Object // the object that was read; nil for a new one
}

// ParseJobStatus reads a status node. A missing retry count is 0, a missing message "", and a time that cannot be
// parsed the zero time. An unknown state is an error.
func ParseJobStatus(data []byte) (s JobStatus, err error) {
	b, err := ParseBatchStatus(data)
	if err != nil {
		return s, err
	}
	s = JobStatus{Status: b.Status, Modified: b.Modified, Message: b.Message, Other: b.Other}
	s.Last, _ = ParseStatus(b.Other.Text(keyLast))
	n, _ := b.Other.Int(keyRetries)
	s.Retries = int(max(n, 0))
	return s, nil
}

// Encode returns the data of the node: all keys, and those that were read and have no field.
func (s *JobStatus) Encode() []byte {
	o := s.Other.Clone()
	o.Set(keyStatus, s.Status)
	o.Set(keyLast, nil)
	if s.Last != "" {
		o.Set(keyLast, s.Last)
	}
	o.Set(keyModified, formatTime(s.Modified))
	o.Set(keyRetries, s.Retries)
	o.Set(keyMessage, s.Message)
	return o.Encode()
}

// BatchStatus is the data of the status of a batch or of an access request. Other fields of the object are kept.
type BatchStatus struct {
	Status   Status
	Modified time.Time // as JobStatus
	Message  string
	Other    Object
}

// ParseBatchStatus reads a status node, as ParseJobStatus.
func ParseBatchStatus(data []byte) (s BatchStatus, err error) {
	o, err := ParseObject(data)
	if err != nil {
		return s, err
	}
	state, ok := ParseStatus(o.Text(keyStatus))
	if !ok {
		return s, fmt.Errorf("unknown status %.40q", o.Text(keyStatus))
	}
	return BatchStatus{Status: state, Modified: parseTime(o.Text(keyModified)), Message: o.Text(keyMessage),
		Other: o}, nil
}

// Encode returns the data of the node: all keys, and those that were read and have no field.
func (s *BatchStatus) Encode() []byte {
	o := s.Other.Clone()
	o.Set(keyStatus, s.Status)
	o.Set(keyModified, formatTime(s.Modified))
	o.Set(keyMessage, s.Message)
	return o.Encode()
}

// Expected returns the number of jobs of the batch; ok is false if no writer recorded it.
func (s *BatchStatus) Expected() (n int, ok bool) {
	e, ok := s.Other.Int(KeyExpected)
	return int(e), ok
}

// formatTime writes a time. Years have four digits in the format.
func formatTime(t time.Time) string { return t.Format(TimeFormat) }

func parseTime(text string) time.Time {
	for _, f := range []string{TimeFormat, time.RFC3339} {
		if t, err := time.Parse(f, text); err == nil {
			return t
		}
	}
	return time.Time{}
}
