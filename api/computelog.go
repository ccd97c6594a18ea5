package api

import "fmt"

// Streams of a compute job's log.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Both   = "both"
)

// ComputePlace is how far a log has been read, in bytes.
type ComputePlace struct {
	Stdout int64
	Stderr int64
}

// String returns the position as the id of a message has it.
func (p ComputePlace) String() string { return fmt.Sprintf("%d-%d", p.Stdout, p.Stderr) }

// ComputeOutput is a piece of what a job wrote. In JSON it is text, or base64 where it is none.
type ComputeOutput struct {
	Stream string `json:"stream"`
	Offset int64  `json:"offset"` // of its first byte
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

// Data returns the bytes.
func (o *ComputeOutput) Data() []byte {
	if o.Base64 != nil {
		return o.Base64
	}
	return []byte(o.Text)
}
