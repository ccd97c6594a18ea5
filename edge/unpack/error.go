package unpack

import "fmt"

// Rule is the reason why an archive was refused.
type Rule string

// Rules.
const (
	Format    Rule = "unknown format"             // by the archive's name
	Exists    Rule = "target exists"              // the directory to unpack into
	Corrupt   Rule = "corrupt"                    // damaged, truncated, or not an archive
	Name      Rule = "name"                       // Err is a *safename.Error with the rule
	Link      Rule = "link"                       // symbolic or hard
	Special   Rule = "special file"               // device, pipe, socket, sparse or unknown type
	SetID     Rule = "set-id bit"                 // a file that would run as another user
	Encrypted Rule = "encrypted"                  //
	Method    Rule = "unknown compression method" //
	Overlap   Rule = "overlapping entries"        // two entries share bytes of the archive
	Mismatch  Rule = "headers disagree"           // an entry's own header and the directory
	TooMany   Rule = "too many entries"           // Limits.Files
	TooDeep   Rule = "too deep"                   // Limits.Depth
	TooLarge  Rule = "too large"                  // Limits.Bytes
	Ratio     Rule = "compression ratio"          // Limits.Ratio
	Size      Rule = "wrong size"                 // an entry has more bytes than its header states
	Trailing  Rule = "data after the end"         //
	Storage   Rule = "storage"                    // the local disk failed; errors.Is finds ENOSPC
	Cancelled Rule = "cancelled"                  // the context ended
)

// Error is the only type of error that Unpack returns.
type Error struct {
	Archive string
	Entry   string // as in the archive; empty if the fault is in no single entry
	Rule    Rule
	Err     error
}

func (e *Error) Error() string {
	text := "unpack " + e.Archive + ": "
	if e.Entry != "" {
		text += fmt.Sprintf("entry %.120q: ", e.Entry)
	}
	text += string(e.Rule)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// refuse returns an error about the archive or an entry; Unpack adds the archive's name.
func refuse(rule Rule, entry string, err error) *Error {
	return &Error{Entry: entry, Rule: rule, Err: err}
}
