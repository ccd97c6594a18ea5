package packaging

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"
)

// JobURN is the identifier of a job as a UUID (RFC 9562), for Facts.Job.Identifier. The ULID of the job's id becomes a
// UUID of version 7: both begin with the same 48 bits of time, and 6 of the random bits give way to version and
// variant. Any other id becomes one of version 8, made of its SHA-256.
func JobURN(id string) string {
	version := byte(7)
	u, err := ulid.ParseStrict(id[strings.LastIndexByte(id, '_')+1:])
	if err != nil {
		sum := sha256.Sum256([]byte(id))
		copy(u[:], sum[:])
		version = 8
	}
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
