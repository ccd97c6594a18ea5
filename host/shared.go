package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host/stores"
	"github.com/stagepost/stagepost/internal/secretfile"
)

// sharedDir returns the directory with the files of jobs. One that the setting names must exist: it may be a mount
// point whose file system is missing.
func (s *serveSettings) sharedDir(data string) (string, error) {
	if s.Shared == "" {
		return data, nil
	}
	dir, err := filepath.Abs(s.Shared)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", cli.Usagef("shared: %s is no directory: mount its file system, or make the directory once "+
			"(mkdir %s)", dir, dir)
	}
	return dir, nil
}

// storeOptions are those by which the settings open the store.
func (s *Settings) storeOptions(data, shared string) (stores.Options, error) {
	o := stores.Options{Where: s.Store, Dir: data, Files: shared, NoLog: s.StoreLog == "off", Name: s.serverName(data),
		Connections: s.StoreReaders}
	if u, err := url.Parse(s.Store); err == nil && strings.HasPrefix(s.Origin["store"], "flag") {
		if _, given := u.User.Password(); given {
			return o, cli.Usagef("store: every user of this machine can read a password in the command line: " +
				"name its file with --store-password-file, or set store in the configuration file")
		}
	}
	if s.StorePassword == "" {
		return o, nil
	}
	password, err := secretfile.ReadMounted(s.StorePassword)
	if err != nil {
		return o, cli.Usagef("store.password_file: %w", err)
	}
	o.Password = password
	return o, nil
}

// Existing are the options by which a command opens the store without a server. It must exist.
func (s *Settings) Existing(data string) (stores.Options, error) {
	shared, err := s.sharedDir(data)
	if err != nil {
		return stores.Options{}, err
	}
	o, err := s.storeOptions(data, shared)
	o.Existing, o.NoLog = true, true
	return o, err
}

// storeWarnings are those about the file with the password of the database.
func (s *serveSettings) storeWarnings() []string {
	if s.StorePassword == "" {
		return nil
	}
	return secretfile.Exposed(s.StorePassword)
}

// serverName is the name of the server among those on the store; see the setting name. Two servers of one machine have
// other data directories.
func (s *serveSettings) serverName(data string) string {
	if s.Name != "" || !stores.Shared(s.Store) {
		return s.Name
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "server"
	}
	digest := sha256.Sum256([]byte(data))
	return host + "-" + hex.EncodeToString(digest[:4])
}

// describeStore adds to the health of the server where its store is, which server leads, and the key of checkpoints.
func (r *Server) describeStore(ctx context.Context, h *client.Health) {
	if r.signed != nil {
		h.CheckpointKey, _ = r.signed.Key() // until the first checkpoint there may be none
	}
	h.Location = r.store.Location
	if r.store.Leader != nil {
		h.Leader = r.store.Lead(ctx)
	}
}
