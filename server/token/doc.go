// Package token decides who may use the API: tokens of 256 random bits, of which a file keeps only the SHA-256.
//
// A token is "stp_" and the base64 (RFC 4648, section 5, no padding) of the 32 random bytes and the CRC-32 (IEEE) of
// them, 48 characters. The prefix lets scanners find a token that was published by mistake; the checksum lets a typo
// be distinguished from a token that was revoked.
//
// The file has a line for each token, fields with blanks or tabs between them:
//
//	SHA-256 (64 hexadecimal digits)  role[:scope]  owner  expiry (RFC 3339, or -)  comment up to the end of the line
//
// The scope of a worker lists what it may claim, kind/state or kind, with commas between them; without one it may
// claim nothing. The scope of a depositor or operator lists the groups (collections) of jobs that it may use; without
// one it may use all.
//
// Empty lines and lines that begin with # are ignored. The hash needs no salt and no slow function: no attacker can
// try 2^256 tokens. A user who can write to the file can admit others, so only its owner may write to it.
package token
