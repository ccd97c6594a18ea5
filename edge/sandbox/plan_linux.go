package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// plan is what the agent sends to the init, once, on the control pipe.
type plan struct {
	Tier    string
	Argv    []string
	Env     []string
	Dir     string // on the machine; in tier bwrap already /job
	DirTree int    // descriptor of a detached mount of Dir; zero: made from the path
	ID      uint32 // in tier none: the user and group that the command becomes; zero: the caller's
	Dev     uint64 // Dir must be this
	Ino     uint64
	Binds   []planBind
	Network string
	Null    bool   // standard input is /dev/null
	Temp    string // in tier none: the private temporary directory, which the init removes if the agent ends
	Scratch int64  // size of /tmp and of /dev/shm in bytes; zero: as the kernel thinks best
	Rlimits []rlimit
}

// planBind is a Bind whose tree may have been opened by the agent, where the init has no access.
type planBind struct {
	From, To string
	Tree     int // descriptor of a detached mount; zero: made from the path
}

// status is what the init reports at the end.
type status struct {
	Error   string // the command could not be started
	Exit    int    // -1: by a signal
	Signal  int
	CPU     time.Duration // of all that it reaped
	MaxRSS  int64         // bytes, of the largest process
	Scratch int64         // bytes in /tmp and /dev/shm when the command ended; not in tier none
}

// descriptors of the init beside standard input, output and error
const (
	controlFD = 3
	statusFD  = 4
	gateFD    = 5
	firstTree = 6
)

// letters on the control pipe after the plan; its end means letterKill.
const (
	letterTerm = 'T' // SIGTERM to the command's group
	letterKill = 'K' // SIGKILL to everything
)

// mostPlan bounds a plan in bytes: arguments and environment of a program are bounded by the kernel anyway.
const mostPlan = 16 << 20

func (p *plan) encode() ([]byte, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	if len(text) > mostPlan {
		return nil, fmt.Errorf("the arguments and the environment take %d bytes", len(text))
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...), nil
}

func readPlan(r io.Reader) (*plan, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if n > mostPlan {
		return nil, fmt.Errorf("a plan of %d bytes", n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	p := &plan{}
	return p, json.Unmarshal(text, p)
}
