package account

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Parameters of argon2id (RFC 9106), as OWASP recommends: 19 MiB, two passes.
const (
	memory  = 19 << 10 // KiB
	passes  = 2
	threads = 1
	keyLen  = 32
	saltLen = 16
)

// Bounds of a password, in characters and bytes.
const (
	leastPassword = 10
	mostPassword  = 1024
)

// working bounds how many passwords are hashed at once: each needs 19 MiB.
var working = make(chan struct{}, 4)

var encoding = base64.RawStdEncoding

// CheckPassword refuses passwords that are too short or too long.
func CheckPassword(password string) error {
	if !utf8.ValidString(password) || utf8.RuneCountInString(password) < leastPassword || len(password) > mostPassword {
		return fmt.Errorf("the password must have at least %d characters and at most %d bytes", leastPassword,
			mostPassword)
	}
	return nil
}

// hash returns what the file keeps of a password: the PHC string of argon2id.
func hash(password string) string {
	salt := make([]byte, saltLen)
	_, _ = rand.Read(salt) // it never fails
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, passes, threads,
		encoding.EncodeToString(salt), encoding.EncodeToString(derive(password, salt, memory, passes, threads)))
}

func derive(password string, salt []byte, m, t uint32, p uint8) []byte {
	working <- struct{}{}
	defer func() { <-working }()
	return argon2.IDKey([]byte(password), salt, t, m, p, keyLen)
}

// parsed is a PHC string.
type parsed struct {
	memory, passes uint32
	threads        uint8
	salt, key      []byte
}

// parseHash reads a PHC string of argon2id.
func parseHash(text string) (h parsed, err error) {
	parts := strings.Split(text, "$")
	wrong := errors.New("the password must be a hash of argon2id, or - for none")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return h, wrong
	}
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &h.memory, &h.passes, &h.threads); n != 3 || err != nil {
		return h, wrong
	}
	var errSalt, errKey error
	h.salt, errSalt = encoding.DecodeString(parts[4])
	h.key, errKey = encoding.DecodeString(parts[5])
	if errors.Join(errSalt, errKey) != nil || len(h.key) != keyLen || len(h.salt) < 8 || h.passes == 0 ||
		h.passes > 10 || h.threads == 0 || h.memory < 8 || h.memory > 1<<20 {
		return h, wrong
	}
	return h, nil
}

// matches reports whether a password has the hash. It takes as long for a hash that does not exist.
func matches(password, phc string) bool {
	h, err := parseHash(phc)
	if err != nil {
		h = parsed{memory: memory, passes: passes, threads: threads, salt: make([]byte, saltLen),
			key: make([]byte, keyLen)}
	}
	got := derive(password, h.salt, h.memory, h.passes, h.threads)
	return subtle.ConstantTimeCompare(got, h.key) == 1 && err == nil
}
