package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Token is a time stamp of a subject. The renewal of a token has the next generation; the first is 1.
type Token struct {
	Subject    string // what is stamped, such as JOB/PATH
	Generation int
	Job        string
	Path       string // of the artifact that is stamped
	Algorithm  string // sha256, sha384, sha512
	Imprint    string // digest that the authority signed, hexadecimal
	Query      []byte // TimeStampReq in DER
	Reply      []byte // TimeStampResp in DER
	Chain      string // certificates in PEM, that of the signer first
	Authority  string // name in the settings
	URL        string
	Time       time.Time
	Serial     string
	Policy     string
	Expires    time.Time // of the first certificate of the chain
	Verified   time.Time
}

const tokenColumns = `subject, generation, job, path, algorithm, imprint, query, reply, chain, authority, url, gen_time,
	serial, policy, expires, verified`

func scanToken(r row) (t Token, err error) {
	err = r.Scan(&t.Subject, &t.Generation, &t.Job, &t.Path, &t.Algorithm, &t.Imprint, &t.Query, &t.Reply, &t.Chain,
		&t.Authority, &t.URL, instant{&t.Time}, &t.Serial, &t.Policy, instant{&t.Expires}, instant{&t.Verified})
	return t, err
}

// PutToken enters a token. There is one of each subject and generation: a second one changes nothing, and the first
// one is returned.
func (c *Catalog) PutToken(ctx context.Context, t Token, e Event) (Token, error) {
	if t.Subject == "" || t.Generation < 1 {
		return Token{}, fmt.Errorf("catalog: a token needs a subject and a generation, not %q %d", t.Subject,
			t.Generation)
	}
	err := c.enter(ctx, "put token", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO tokens (`+tokenColumns+`)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			t.Subject, t.Generation, t.Job, t.Path, t.Algorithm, t.Imprint, t.Query, t.Reply, t.Chain, t.Authority,
			t.URL, sorted(t.Time), t.Serial, t.Policy, sorted(t.Expires), sorted(t.Verified)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO current_tokens
			SELECT subject, generation, expires FROM tokens WHERE subject = ?1 ORDER BY generation DESC LIMIT 1
			ON CONFLICT (subject) DO UPDATE SET generation = excluded.generation, expires = excluded.expires`,
			t.Subject); err != nil {
			return err
		}
		return putEvent(ctx, tx, e)
	})
	if err != nil {
		return Token{}, err
	}
	return c.Token(ctx, t.Subject, t.Generation)
}

// Token gives a token. Generation 0 is the newest one.
func (c *Catalog) Token(ctx context.Context, subject string, generation int) (Token, error) {
	return one("token of "+subject, c.read.QueryRowContext(ctx, "SELECT "+tokenColumns+` FROM tokens
		WHERE subject = ?1 AND CAST(?2 AS bigint) IN (0, generation) ORDER BY generation DESC LIMIT 1`, subject,
		generation), scanToken)
}

// Tokens lists the tokens of an archive by subject and generation.
func (c *Catalog) Tokens(ctx context.Context, job string) ([]Token, error) {
	return each(ctx, c.read, scanToken,
		"SELECT "+tokenColumns+" FROM tokens WHERE job = ? ORDER BY subject, generation", job)
}

// Expiring lists the newest tokens of subjects whose certificates expire before a time, the first to expire first.
// Those of deleted archives are not listed.
func (c *Catalog) Expiring(ctx context.Context, before time.Time, limit int) ([]Token, error) {
	return each(ctx, c.read, scanToken, `SELECT `+tokenColumns+` FROM tokens JOIN (
			SELECT subject AS s, generation AS g FROM current_tokens WHERE expires < ?1
		) AS newest ON subject = s AND generation = g
		WHERE NOT EXISTS (SELECT 1 FROM archives AS a WHERE a.job = tokens.job AND a.outcome = ?2)
		ORDER BY expires LIMIT ?3`, sorted(before), Deleted, page(limit))
}
