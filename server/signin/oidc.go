package signin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/stagepost/stagepost/server/identity"
)

// OIDC is a provider of OpenID Connect. Sign-in is by the code flow with PKCE (RFC 7636), state and nonce.
type OIDC struct {
	Issuer   string
	Client   string // client id
	Secret   string // client secret
	Title    string // the text of the link on the sign-in page; defaults to the issuer
	Name     string // the claim with the name for records; defaults to preferred_username
	Groups   string // the claim with the groups; defaults to groups
	Rules    Rules
	HTTP     *http.Client // defaults to one with a timeout of 10 s
	Redirect string       // the address of the callback, as it is registered at the provider
	now      func() time.Time
	mu       sync.Mutex // guards the rest
	provider *oidc.Provider
	outcomes map[[32]byte]*outcome // by states that came back, so that each does once
	failure  error                 // of the last try to read the provider's description
	failedAt time.Time
}

const (
	mostAnswer = 1 << 20         // bytes of an answer of the provider
	retryAfter = 5 * time.Second // after a provider that did not answer
)

// bounded limits the answers of a provider: its keys and its description are read whole into memory.
type bounded struct{ http.RoundTripper }

// RoundTrip is part of [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, mostAnswer)
	}
	return answer, err
}

// noSecrets follows no redirect of a request that has the code and the client secret.
func noSecrets(_ *http.Request, via []*http.Request) error {
	if via[0].Method != http.MethodGet || len(via) >= 5 {
		return http.ErrUseLastResponse
	}
	return nil
}

// Validate returns what is missing.
func (o *OIDC) Validate() error {
	switch {
	case o.Issuer == "" || o.Client == "":
		return errors.New("issuer and client id are needed")
	case o.Redirect == "":
		return errors.New("the address of this server, as browsers use it, is missing: the provider returns them to it")
	case len(o.Rules) == 0:
		return errors.New("no rule gives a role: depositor=* admits all people whom the provider names")
	}
	return nil
}

// algorithms are the signatures of ID tokens that are accepted, whatever the provider offers.
var algorithms = []string{oidc.RS256, oidc.PS256, oidc.ES256, oidc.ES384, oidc.EdDSA}

// ready reads the provider's description at the first use, and again after a failure: a server starts without its
// provider.
func (o *OIDC) ready(ctx context.Context) (*oidc.Provider, context.Context, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: 10 * time.Second, Transport: bounded{http.DefaultTransport},
			CheckRedirect: noSecrets}
	}
	if o.provider == nil && o.now().Sub(o.failedAt) < retryAfter {
		return nil, ctx, o.failure // those who waited meanwhile do not ask one after another
	}
	if o.provider == nil {
		// the provider keeps this context for its keys, beyond the request
		p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), o.HTTP), o.Issuer)
		if err != nil {
			o.failure, o.failedAt = fmt.Errorf("the provider does not answer as it should: %w", err), o.now()
			return nil, ctx, o.failure
		}
		o.provider = p
	}
	return o.provider, oidc.ClientContext(ctx, o.HTTP), nil
}

func (o *OIDC) config(p *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{ClientID: o.Client, ClientSecret: o.Secret, Endpoint: p.Endpoint(), RedirectURL: o.Redirect,
		Scopes: []string{oidc.ScopeOpenID, "profile", "email"}}
}

// begin returns the address of the provider for a sign-in.
func (o *OIDC) begin(ctx context.Context, p pending) (address string, err error) {
	provider, _, err := o.ready(ctx)
	if err != nil {
		return "", err
	}
	return o.config(provider).AuthCodeURL(p.State, oidc.Nonce(p.Nonce), oauth2.S256ChallengeOption(p.Verifier)), nil
}

// returned returns how a callback for a sign-in of this browser ends, or what is wrong with it. The sign-in ends once:
// the one who is first settles it.
func (o *OIDC) returned(p pending, callback *url.URL) (end *outcome, first bool, err error) {
	q, age := callback.Query(), o.now().Sub(p.Begun)
	state, issuer := q.Get("state"), q.Get("iss")
	switch {
	case p.State == "" || subtle.ConstantTimeCompare([]byte(p.State), []byte(state)) != 1:
		return nil, false, errors.New("this sign-in was not begun in this browser: begin again")
	case age < 0 || age > pendingFor:
		return nil, false, errors.New("the sign-in took too long: begin again")
	case issuer != "" && issuer != o.Issuer: // RFC 9207
		return nil, false, errors.New("the answer comes from another provider")
	}
	if end, first = o.outcome(p, callback.RawQuery); end == nil {
		err = errors.New("this sign-in has ended already: begin again")
	}
	return end, first, err
}

// exchange exchanges the code of a callback for the identity.
func (o *OIDC) exchange(ctx context.Context, p pending, code string) (who identity.Identity, err error) {
	provider, ctx, err := o.ready(ctx)
	if err != nil {
		return who, err
	}
	token, err := o.config(provider).Exchange(ctx, code, oauth2.VerifierOption(p.Verifier))
	if err != nil {
		return who, fmt.Errorf("the provider refuses the code: %w", scrubbed(err))
	}
	raw, _ := token.Extra("id_token").(string)
	verifier := provider.Verifier(&oidc.Config{ClientID: o.Client, SupportedSigningAlgs: algorithms, Now: o.now})
	id, err := verifier.Verify(ctx, raw)
	if err != nil {
		return who, fmt.Errorf("the provider's ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(p.Nonce)) != 1 {
		return who, errors.New("the provider's ID token is not for this sign-in (nonce)")
	}
	if err := o.audience(id); err != nil {
		return who, err
	}
	return o.identity(id)
}

// audience refuses an ID token that was issued to another client (OpenID Connect Core 1.0, section 3.1.3.7). That the
// client is among the audiences was checked.
func (o *OIDC) audience(id *oidc.IDToken) error {
	var claims struct {
		Party *string `json:"azp"`
	}
	if err := id.Claims(&claims); err != nil {
		return fmt.Errorf("the provider's ID token: %w", err)
	}
	if claims.Party == nil && len(id.Audience) > 1 || claims.Party != nil && *claims.Party != o.Client {
		return errors.New("the provider's ID token is for several clients, or was issued to another one (azp)")
	}
	return nil
}

// scrubbed is an error of an exchange without the answer's body, which may have tokens.
func scrubbed(err error) error {
	var failed *oauth2.RetrieveError
	if errors.As(err, &failed) {
		return fmt.Errorf("%s %s", failed.Response.Status, failed.ErrorCode)
	}
	return err
}

// identity reads the claims of an ID token.
func (o *OIDC) identity(id *oidc.IDToken) (who identity.Identity, err error) {
	claims := map[string]any{}
	if err := id.Claims(&claims); err != nil {
		return who, err
	}
	text := func(claim string) string {
		s, _ := claims[claim].(string)
		return strings.TrimSpace(s)
	}
	if who.Name = text(o.Name); identity.ValidateName(who.Name) != nil {
		return who, fmt.Errorf("the claim %s has no name that can be used", o.Name)
	}
	if err := identity.CheckNewName(who.Name); err != nil {
		return who, fmt.Errorf("the claim %s: %w", o.Name, err)
	}
	if verified, given := claims["email_verified"].(bool); o.Name == "email" && (!given || !verified) {
		return who, errors.New("the provider has not verified the mail address")
	}
	if who.Display = text("name"); identity.ValidateDisplay(who.Display) != nil {
		who.Display = ""
	}
	var groups []string
	switch list := claims[o.Groups].(type) {
	case string:
		groups = []string{list}
	case []any:
		for _, one := range list {
			if group, ok := one.(string); ok {
				groups = append(groups, group)
			}
		}
	}
	if !o.Rules.apply(&who, groups) {
		return who, errors.New("none of your groups has a role here: ask an admin")
	}
	return who, nil
}
