package sqldb

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FileDSN is the data source name of a SQLite file with a write-ahead log. Its transactions wait for each other from
// their beginning. More pragmas follow, such as synchronous(FULL).
func FileDSN(path string, pragmas ...string) string {
	all := slices.Concat(
		[]string{"busy_timeout(10000)", "journal_mode(WAL)", "foreign_keys(1)", "cache_size(-4096)"}, pragmas)
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?_txlock=immediate&_pragma=" +
		strings.Join(all, "&_pragma=")
}

// PrivateFile makes a SQLite file when there is none, for this user only, and takes from one that is there, and from
// its log, the rights that the store beside it does not give.
func PrivateFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(filepath.Join(filepath.Dir(path), "stagepost.db")); err == nil {
		mode = info.Mode().Perm()
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if had := info.Mode().Perm(); had&^mode != 0 {
			if err := os.Chmod(name, had&mode); err != nil {
				return err
			}
		}
	}
	return nil
}
