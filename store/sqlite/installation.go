package sqlite

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
)

// Installation returns the id of the installation: 26 random characters, created when a data directory is opened for
// the first time and never changed. A backup has the id of its source, and keeps it when it is restored.
func (s *Store) Installation() string { return s.installation }

// identify reads the id of the installation, and creates it if there is none.
func identify(c *conn.Conn) (id string, err error) {
	fresh := strings.ToLower(rand.Text())
	err = c.Exec(fmt.Sprintf(
		"INSERT INTO installation SELECT 1, '%s', '%s' WHERE NOT EXISTS (SELECT 1 FROM installation)",
		fresh, time.Now().UTC().Format(time.RFC3339)))
	if err != nil {
		return "", err
	}
	err = each(c, "SELECT id FROM installation", func(s *conn.Stmt) error {
		id = s.GetText(0)
		return nil
	})
	return id, err
}
