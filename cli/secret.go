package cli

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/server/token"
)

// TokenVariable has the token itself. It is no setting: a setting could stand in a flag, which every user of the
// machine sees, or in a file that is shared.
const TokenVariable = "STAGEPOST_TOKEN"

// secret gives the token to send: that of the environment, else that of the file, else none. An error never has the
// token in it.
func (s *Common) secret(env func(string) (string, bool)) (client.Secret, error) {
	if text, ok := env(TokenVariable); ok && text != "" {
		return parseSecret(TokenVariable, text)
	}
	if s.Token == "" {
		return client.Secret{}, nil
	}
	text, err := secretfile.Read(s.Token)
	if err != nil {
		return client.Secret{}, fmt.Errorf("token_file: %w", err)
	}
	return parseSecret("token_file "+s.Token, text)
}

func parseSecret(where, text string) (client.Secret, error) {
	t, err := token.Parse(strings.TrimSpace(text))
	if err != nil {
		return client.Secret{}, fmt.Errorf("%s: %w", where, err)
	}
	return client.NewSecret(t.Reveal()), nil
}
