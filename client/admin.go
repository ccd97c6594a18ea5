package client

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Verify checks chains of hashes and replays.
func (c *Client) Verify(ctx context.Context, v Verify) (Checkup, error) {
	return send[Checkup](ctx, c, http.MethodPost, "/api/v1/admin/verify", nil, v)
}

// Export writes all histories with their anchors, as a ZIP file.
func (c *Client) Export(ctx context.Context, w io.Writer) error {
	r, err := c.request(ctx, http.MethodGet, "/api/v1/admin/export", nil, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "*/*")
	answer, err := c.do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err = io.Copy(w, answer.Body); err != nil {
		return unreachable(r, err)
	}
	return nil
}

// Fsck checks what the store derives from records.
func (c *Client) Fsck(ctx context.Context, f Fsck) (Checkup, error) {
	return send[Checkup](ctx, c, http.MethodPost, "/api/v1/admin/fsck", nil, f)
}

// Backup makes a backup of the data directory while the server works.
func (c *Client) Backup(ctx context.Context, b Backup) (BackedUp, error) {
	return send[BackedUp](ctx, c, http.MethodPost, "/api/v1/admin/backup", nil, b)
}

// Health asks whether the server can work. If it answers that it cannot, the error is of kind Unavailable, and the
// answer is returned with it.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	r, err := c.request(ctx, http.MethodGet, "/healthz", nil, nil)
	if err != nil {
		return h, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return h, unreachable(r, err)
	}
	defer answer.Body.Close()
	media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if media != "application/json" {
		return h, problem(answer)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&h); err != nil {
		return h, job.Errorf(job.Internal, "decode", "", "the answer of %s: %w", r.URL.Path, err)
	}
	if answer.StatusCode != http.StatusOK {
		return h, job.Errorf(job.Unavailable, "health", "", "the server cannot work: %s", h.Status)
	}
	return h, nil
}

// Clock returns the time of the server, and whether the server trusts it.
func (c *Client) Clock(ctx context.Context) (Clock, error) {
	return get[Clock](ctx, c, "/api/v1/admin/clock", nil)
}

// ConfirmClock has the server trust the clock of its machine as it is now. Refused when nothing speaks against it.
func (c *Client) ConfirmClock(ctx context.Context, confirm ConfirmClock) (Clock, error) {
	return send[Clock](ctx, c, http.MethodPost, "/api/v1/admin/clock", nil, confirm)
}

// Tokens lists the tokens that may use the API, and when each was used last.
func (c *Client) Tokens(ctx context.Context) ([]api.Token, error) {
	a, err := get[api.Tokens](ctx, c, "/api/v1/admin/tokens", nil)
	return a.Tokens, err
}

// OwnTokens lists the tokens of the sender, and when each was used last.
func (c *Client) OwnTokens(ctx context.Context) ([]api.Token, error) {
	a, err := get[api.Tokens](ctx, c, "/api/v1/session/tokens", nil)
	return a.Tokens, err
}

// RevokeToken revokes a token, named by all digits of its hash, and returns the others. note is why.
func (c *Client) RevokeToken(ctx context.Context, hash, note string) ([]api.Token, error) {
	a, err := c.revoke(ctx, "/api/v1/admin/tokens/", hash, note)
	return a.Tokens, err
}

// RevokeOwnToken is [Client.RevokeToken] for the tokens of the sender.
func (c *Client) RevokeOwnToken(ctx context.Context, hash, note string) ([]api.Token, error) {
	a, err := c.revoke(ctx, "/api/v1/session/tokens/", hash, note)
	return a.Tokens, err
}

func (c *Client) revoke(ctx context.Context, path, hash, note string) (api.Tokens, error) {
	q := url.Values{}
	if note != "" {
		q.Set("note", note)
	}
	return call[api.Tokens](ctx, c, http.MethodDelete, path+url.PathEscape(hash), q, nil)
}

// Members lists the certificates of workers and agents, and the enrolment tokens that were not used.
func (c *Client) Members(ctx context.Context) (api.Members, error) {
	return get[api.Members](ctx, c, "/api/v1/admin/members", nil)
}
