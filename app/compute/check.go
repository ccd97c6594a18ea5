package compute

import "io"

// ScriptCheck inspects run.sh before it runs. nil lets every script run. The error is that of reading it.
type ScriptCheck func(script io.Reader) (Verdict, error)

// Verdict on a script. An empty reason: no objection.
type Verdict struct {
	Refused bool // the job can never run
	Reason  string
}

// Check calls the check, if there is one.
func (c ScriptCheck) Check(script io.Reader) (Verdict, error) {
	if c == nil {
		return Verdict{}, nil
	}
	return c(script)
}

// AnyScript lets every script run: it replaces a check that would hold otherwise.
func AnyScript(io.Reader) (Verdict, error) { return Verdict{}, nil }
