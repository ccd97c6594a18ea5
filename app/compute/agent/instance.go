package agent

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/internal/durable"
)

// memory is the name of what the agent remembers: a server that has payloads of another memory learns that this one has
// forgotten them. The file states besides whether a payload was ever taken: if one was and the store has none, the
// store is a new one.
type memory struct {
	file string
	name string

	mu   sync.Mutex // guards used
	used bool
}

const usedWord = "used"

// openMemory reads the name, or makes a new one if there is none or the store was emptied.
func openMemory(dir string, empty func() (bool, error)) (*memory, error) {
	m := &memory{file: filepath.Join(dir, "instance")}
	text, err := os.ReadFile(m.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("agent: %w", err)
	}
	if words := strings.Fields(string(text)); len(words) > 0 {
		m.name, m.used = words[0], len(words) > 1 && words[1] == usedWord
	}
	if m.used {
		none, err := empty()
		if err != nil {
			return nil, err
		}
		if none {
			m.name, m.used = "", false
		}
	}
	if m.name != "" {
		return m, nil
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	m.name = hex.EncodeToString(random[:])
	return m, m.write()
}

// use notes that a payload is being taken. It is on the disk when it returns.
func (m *memory) use() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used {
		return nil
	}
	m.used = true
	if err := m.write(); err != nil {
		m.used = false
		return err
	}
	return nil
}

func (m *memory) write() error {
	text := m.name
	if m.used {
		text += " " + usedWord
	}
	return durable.Replace(m.file, []byte(text+"\n"))
}
