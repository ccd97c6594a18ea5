package access

import (
	"context"
	"crypto/subtle"
	"encoding/base32"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/job"
)

// A token is a ULID and 128 random bits, both in base32, in lower case: the ULID is that of the job's id and finds it, the random bits are the secret.
const (
	idLength    = 26
	tokenLength = 2 * idLength
)

var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newToken makes the id of a job and the token for it.
func (a *App) newToken(now time.Time) (job.ID, string, error) {
	id, err := ulid.New(ulid.Timestamp(now), a.options.Random)
	if err != nil {
		return "", "", err
	}
	var secret [16]byte
	if _, err := io.ReadFull(a.options.Random, secret[:]); err != nil {
		return "", "", err
	}
	return job.ID("acc_" + id.String()), strings.ToLower(id.String()) + base32Lower.EncodeToString(secret[:]), nil
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
	j, err := a.engine.Store().Get(ctx, job.ID("acc_"+strings.ToUpper(token[:idLength])))
	if job.KindOf(err) == job.NotFound || err == nil && j.Kind != Kind {
		return nil, nil, unknown
	}
	if err != nil {
		return nil, nil, err
	}
	s, err := specOf(&j)
	if err != nil {
		return nil, nil, err
	}
	if subtle.ConstantTimeCompare([]byte(s.Token), []byte(token)) != 1 {
		return nil, nil, unknown
	}
	return &j, s, nil
}

func specOf(j *job.Job) (*spec, error) {
	var s spec
	if err := json.Unmarshal(j.Spec, &s); err != nil {
		return nil, job.Errorf(job.Internal, "access", j.ID, "spec: %w", err)
	}
	return &s, nil
}
