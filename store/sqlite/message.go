package sqlite

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite/conn"
)

const selectMessage = "SELECT key, job, topic, body, created, due, attempts, error, settled FROM message "

// messages reads all rows of a statement that begins with selectMessage.
func messages(s *conn.Stmt) ([]job.Message, error) {
	var found []job.Message
	for {
		row, err := s.Step()
		if !row || err != nil {
			return found, err
		}
		found = append(found, job.Message{
			Key: s.GetText(0), Job: job.ID(s.GetText(1)), Topic: s.GetText(2), Body: s.GetBytes(3),
			Created: unixMicro(s.GetInt(4)), Due: unixMicro(s.GetInt(5)),
			Attempts: int(s.GetInt(6)), Error: s.GetText(7), Settled: job.Settled(s.GetText(8)),
		})
	}
}
