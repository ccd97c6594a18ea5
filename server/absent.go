package server

import "github.com/stagepost/stagepost/job"

// Absent is what a route answers if the server does not have what it is for: a sentence of what the server does not do,
// and what would change that, such as "setting flow.http" or "module flow".
func Absent(op, sentence, by string) error {
	return job.Errorf(job.NotFound, op, "", "%s (%s)", sentence, by)
}
