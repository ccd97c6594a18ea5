package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/stagepost/stagepost/app/compute/orchestrator/scan"
)

// Payload is a job as its agent has it. The first six keys are mandatory for a server of the original, which takes a
// payload without one of them as a failure; the others it ignores.
type Payload struct {
	ID uint32
	// Status is what is reported to a server; [Agent] puts [Status.Report] on the wire and a ZIP in place of Completed.
	Status Status
	Loc    string
	PID    uint32
	Killed bool

	// The rest are extra keys, left out when zero.
	Reason   string
	Message  string
	ExitCode *int
	Signal   string
	// Instance names this database of the agent. A server that remembers it notices an agent that lost its database,
	// whose small ids may mean other users' jobs by now.
	Instance string

	// Token guards the payload: it is never written. A request that brings another one is answered that there is no
	// such payload. Empty: the server that submitted it has none (the original).
	Token string
}

// payloadBody has the order of keys of the original. Input is always empty: the original echoes the whole upload as
// decimal numbers, nothing reads them, and an empty object is legal.
type payloadBody struct {
	ID     uint32   `json:"id"`
	Input  struct{} `json:"input"`
	Status Status   `json:"status"`
	Loc    string   `json:"loc"`
	PID    uint32   `json:"pid"`
	Killed bool     `json:"killed"`
}

type fullPayload struct {
	payloadBody
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	Instance string `json:"instance,omitempty"`
}

// Encode gives the JSON of p, with the extra keys if extra is set. A status that is none of the words is Unknown.
func (p Payload) Encode(extra bool) []byte {
	b := payloadBody{ID: p.ID, Status: p.Status, Loc: p.Loc, PID: p.PID, Killed: p.Killed}
	if !b.Status.Known() {
		b.Status = Unknown
	}
	if !extra {
		return encode(b)
	}
	return encode(fullPayload{b, p.Reason, p.Message, p.ExitCode, p.Signal, p.Instance})
}

// noPayload is the body for errors of an agent.
var noPayload = Payload{Status: Unknown}.Encode(false)

// decodePayload reads a payload of at most limit bytes as a server of the original does: the six keys must be there,
// others may be. The echoed input of an original agent, four characters for each byte of the upload, is passed over as
// it comes and never held. What follows the object must be white space.
func decodePayload(r io.Reader, limit int64) (Payload, error) {
	s := scan.New(r, limit)
	fields := map[string][]byte{}
	err := s.Object(func(key string) error {
		if _, twice := fields[key]; twice {
			return fmt.Errorf("duplicate field %q", key)
		}
		if key == "input" {
			if first, err := s.Peek(); err != nil || first != '{' {
				return errors.Join(errors.New(`"input" is no object`), err)
			}
			fields[key] = nil
			return s.Value(nil)
		}
		var raw []byte
		if err := s.Value(&raw); err != nil {
			return err
		}
		if len(fields) > 64 {
			return errors.New("more than 64 fields")
		}
		fields[key] = raw
		return nil
	})
	if err != nil {
		return Payload{}, fmt.Errorf("payload: %w", err)
	}
	p, err := readFields(fields)
	if err != nil {
		return Payload{}, fmt.Errorf("payload: %w", err)
	}
	return p, nil
}

func readFields(fields map[string][]byte) (Payload, error) {
	var p Payload
	var errs []error
	must := func(key string, into any) {
		raw, ok := fields[key]
		if !ok {
			errs = append(errs, fmt.Errorf("missing field %q", key))
			return
		}
		if into == nil {
			return
		}
		if string(raw) == "null" {
			errs = append(errs, fmt.Errorf("field %q is null", key))
		} else if err := json.Unmarshal(raw, into); err != nil {
			errs = append(errs, fmt.Errorf("field %q: %w", key, err))
		}
	}
	must("id", &p.ID)
	must("input", nil)
	must("status", &p.Status)
	must("loc", &p.Loc)
	must("pid", &p.PID)
	must("killed", &p.Killed)
	if len(errs) == 0 && !p.Status.Known() {
		errs = append(errs, fmt.Errorf("unknown status %.40q", p.Status))
	}
	may := func(key string, into any) {
		if raw, ok := fields[key]; ok {
			json.Unmarshal(raw, into) // another implementation may mean something else by it
		}
	}
	may("reason", &p.Reason)
	may("message", &p.Message)
	may("exit_code", &p.ExitCode)
	may("signal", &p.Signal)
	may("instance", &p.Instance)
	return p, errors.Join(errs...)
}
