package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server/token"
)

// TokenVariable has the token itself. It is no setting: a setting could stand in a flag, which every user of the machine sees, or in a file that is
// shared.
const TokenVariable = "STAGEPOST_TOKEN"

// secret gives the token to send: that of the environment, else that of the file, else none. An error never has the token in it.
func (s *Common) secret(env func(string) (string, bool)) (client.Secret, error) {
	if text, ok := env(TokenVariable); ok && text != "" {
		return parseSecret(TokenVariable, text)
	}
	if s.Token == "" {
		return client.Secret{}, nil
	}
	f, err := os.Open(s.Token)
	if err != nil {
		return client.Secret{}, fmt.Errorf("token_file: %w", err)
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return client.Secret{}, fmt.Errorf("token_file: %w", err)
	}
	if stat.Mode().IsRegular() && stat.Mode().Perm()&0o077 != 0 {
		return client.Secret{}, fmt.Errorf("token_file: %s has the mode %#o: nobody but its owner may read it (chmod 600)", s.Token, stat.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return client.Secret{}, fmt.Errorf("token_file: %w", err)
	}
	return parseSecret("token_file "+s.Token, string(text))
}

func parseSecret(where, text string) (client.Secret, error) {
	t, err := token.Parse(strings.TrimSpace(text))
	if err != nil {
		return client.Secret{}, fmt.Errorf("%s: %w", where, err)
	}
	return client.NewSecret(t.Reveal()), nil
}
