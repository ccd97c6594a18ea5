package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
)

// A token is a ULID and 128 bits, both in base32, in lower case: the ULID is that of the job's id and finds it, the
// bits are the secret. They follow from the id and the key of the data directory (HMAC-SHA-256), so that no record
// contains a token: the right to see jobs is no right to fetch packages. With API tokens they follow from the hash of
// the one that asked as well, and are valid as long as that one is.
const (
	idLength    = 26
	tokenLength = 2 * idLength
	keyLength   = 32
)

// keyName is the file of that key. If it goes, the tokens given before are unknown, and what they are for is to be
// asked for again.
const keyName = "token.key"

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// loadKey reads the key, which is made if there is none.
func loadKey(root *os.Root, random io.Reader) ([]byte, error) {
	key, err := root.ReadFile(keyName)
	switch {
	case err == nil && len(key) != keyLength:
		return nil, fmt.Errorf("%s has %d bytes, not %d: remove it, and tokens of before are void", keyName, len(key),
			keyLength)
	case !errors.Is(err, fs.ErrNotExist):
		return key, err
	}
	key = make([]byte, keyLength)
	if _, err := io.ReadFull(random, key); err != nil {
		return nil, err
	}
	return shareKey(root, key)
}

// shareKey makes the file of the key. Of several servers that do so at once, all get the same key.
func shareKey(root *os.Root, key []byte) ([]byte, error) {
	part := keyName + "-" + rand.Text()
	if err := durable.ReplaceIn(root, part, key); err != nil {
		return nil, err
	}
	err := root.Link(part, keyName) // a link does not replace
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err = errors.Join(err, root.Remove(part), durable.SyncIn(root, ".")); err != nil {
		return nil, err
	}
	return root.ReadFile(keyName)
}

// newID makes the id of a job.
func (a *App) newID(now time.Time) (job.ID, error) {
	id, err := ulid.New(ulid.Timestamp(now), a.options.Random)
	return job.ID("acc_" + id.String()), err
}

// token gives the token of a job for an API token, named by its hash, or for none.
func (a *App) token(id job.ID, tie string) string {
	mac := hmac.New(sha256.New, a.key)
	_, _ = mac.Write([]byte(id)) // a hash never fails
	if tie != "" {
		_, _ = mac.Write([]byte("\n" + tie))
	}
	return strings.ToLower(strings.TrimPrefix(string(id), "acc_")) + base32Lower.EncodeToString(mac.Sum(nil)[:16])
}

var errNoToken = errors.New("there is no package of this token")

// find gives the job of a token. Whatever is wrong with a token, the answer is the same.
func (a *App) find(ctx context.Context, token string) (*job.Job, *spec, error) {
	unknown := &job.Error{Op: "access", Kind: job.NotFound, Err: errNoToken}
	if a.engine == nil {
		return nil, nil, job.Errorf(job.Unavailable, "access", "", "no engine is bound")
	}
	if len(token) != tokenLength {
		return nil, nil, unknown
	}
	id := job.ID("acc_" + strings.ToUpper(token[:idLength]))
	if !a.genuine(id, token) {
		return nil, nil, unknown
	}
	j, err := a.engine.Store().Get(ctx, id)
	if job.KindOf(err) == job.NotFound || err == nil && j.Kind != Kind {
		return nil, nil, unknown
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := specOf(&j)
	return &j, s, err
}

// genuine reports whether a package token was given for a job to a person whose API token is still valid.
func (a *App) genuine(id job.ID, token string) bool {
	ties := []string{""}
	if a.options.Tokens != nil {
		ties = a.options.Tokens()
	}
	found := 0
	for _, tie := range ties {
		found |= subtle.ConstantTimeCompare([]byte(a.token(id, tie)), []byte(token))
	}
	return found == 1
}

func specOf(j *job.Job) (*spec, error) {
	var s spec
	if err := json.Unmarshal(j.Spec, &s); err != nil {
		return nil, job.Errorf(job.Internal, "access", j.ID, "spec: %w", err)
	}
	return &s, nil
}
