package signin

import (
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/token"
)

// ownTokens lists the tokens of the sender; without authentication there is none.
func (s *routes) ownTokens(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	return s.replyTokens(w, ofSender(r))
}

func (s *routes) tokens(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	return s.replyTokens(w, ofAll)
}

// revokeOwn revokes a token of the sender. A sender without authentication has none.
func (s *routes) revokeOwn(w http.ResponseWriter, r *http.Request) error {
	return s.revokeToken(w, r, ofSender(r))
}

func (s *routes) revokeAny(w http.ResponseWriter, r *http.Request) error {
	return s.revokeToken(w, r, ofAll)
}

// ofSender selects the tokens of the sender of a request.
func ofSender(r *http.Request) func(*token.Entry) bool {
	owner := server.OwnerOf(r.Context())
	return func(e *token.Entry) bool { return e.Owner == owner }
}

func ofAll(*token.Entry) bool { return true }

// revokeToken revokes a token that the sender may see, and answers with the others. The act is in the audit log before
// it, with the address of the sender; what it did to the file is entered as each change of the file is.
func (s *routes) revokeToken(w http.ResponseWriter, r *http.Request, shows func(*token.Entry) bool) error {
	p := server.Params(r)
	note, actor := p.Text("note"), p.Text("actor")
	if err := p.Err(); err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", actor)
	if err == nil {
		err = server.CheckText("note", note, server.MostNote)
	}
	if err != nil {
		return err
	}
	one, err := s.findToken(r.PathValue("hash"), shows)
	if err != nil {
		return err
	}
	short := one.Hash.String()[:16]
	if err := s.note(r.Context(), "revoke-token", actor, "token "+short+" of "+one.Owner, note); err != nil {
		return err
	}
	by := actor
	if line := strings.Join(strings.Fields(note), " "); line != "" {
		by += ": " + line
	}
	if _, err := s.o.Tokens.Revoke(one.Hash, by); err != nil {
		return revokeError(err, s.o.Tokens.Name(), short)
	}
	return s.replyTokens(w, shows)
}

// revokeError is the answer if a token cannot be removed from a file.
func revokeError(err error, file, hash string) error {
	switch {
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return job.Errorf(job.Refused, "revoke", "", "the server may not change its file of tokens: on its machine, "+
			"use stagepost admin token revoke %s %s", file, hash)
	case errors.Is(err, token.ErrUnknown): // another server was first
		return noToken(hash)
	}
	return err
}

// findToken finds a token among those that the sender may see, by all digits of its hash.
func (s *routes) findToken(hash string, shows func(*token.Entry) bool) (token.Entry, error) {
	if s.o.Tokens == nil {
		return token.Entry{}, noToken(hash)
	}
	entries, _, err := s.o.Tokens.List()
	if err != nil {
		return token.Entry{}, err
	}
	i := slices.IndexFunc(entries, func(e token.Entry) bool { return e.Hash.String() == hash && shows(&e) })
	if i < 0 {
		return token.Entry{}, noToken(hash)
	}
	return entries[i], nil
}

func noToken(hash string) error {
	return job.Errorf(job.NotFound, "revoke", "", "there is no token whose hash is %.16q", hash)
}

// replyTokens answers with the tokens that are shown.
func (s *routes) replyTokens(w http.ResponseWriter, shows func(*token.Entry) bool) error {
	answer := api.Tokens{Tokens: []api.Token{}}
	if s.o.Tokens == nil {
		return server.Reply(w, answer)
	}
	entries, used, err := s.o.Tokens.List()
	if err != nil {
		return err
	}
	for i := range entries {
		if shows(&entries[i]) {
			answer.Tokens = append(answer.Tokens, entries[i].Shown(used, s.now()))
		}
	}
	return server.Reply(w, answer)
}
