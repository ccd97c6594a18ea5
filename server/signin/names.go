package signin

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/ratelimit"
	"github.com/stagepost/stagepost/server/token"
)

// Names are those that an admin of the server gave: of local users, also disabled ones, and of the owners of tokens.
// The owner of a job is a name alone, so a provider or a proxy must not name another person so. nil has none. It is
// safe for concurrent use.
type Names struct {
	users  *account.Users // nil: there are none
	tokens *token.Tokens  // nil: there are none
	log    *slog.Logger
	logged *ratelimit.Limit // a proxy names the person in each request
}

// errTaken is the reason to refuse a name.
var errTaken = errors.New("to be this person, sign in as such; an admin can rename one of both, or set names.shared " +
	"if equal names are the same person here")

func newNames(o *Options) *Names {
	return &Names{users: o.Users, tokens: o.Tokens, log: o.Log, logged: ratelimit.New(time.Hour, 1, o.Now)}
}

// check refuses a name that a provider or a proxy gives. The error is errTaken, or identity.ErrFault while a file
// cannot be read.
func (n *Names) check(name, by string) error {
	err := n.find(name)
	if errors.Is(err, errTaken) {
		if _, first := n.logged.Allow(name); first {
			n.log.Warn("a sign-in is refused", "by", by, "name", name, "reason", err)
		}
	}
	return err
}

func (n *Names) find(name string) error {
	if n == nil {
		return nil
	}
	if n.users != nil {
		all, err := n.users.All()
		if err != nil {
			return identity.ErrFault
		}
		if slices.ContainsFunc(all, func(u account.User) bool { return u.Name == name }) {
			return fmt.Errorf("the name %s is that of a local user: %w", name, errTaken)
		}
	}
	if n.tokens != nil {
		owns, err := n.tokens.HasOwner(name)
		if err != nil {
			return identity.ErrFault
		}
		if owns {
			return fmt.Errorf("the name %s is that of the owner of a token: %w", name, errTaken)
		}
	}
	return nil
}
