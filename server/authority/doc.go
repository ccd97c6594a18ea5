// Package authority is the local certificate authority of a server. It issues the certificate of the server and those
// of workers and agents, which authenticate with them (mutual TLS 1.3).
//
// A directory has all of it:
//
//	ca.pem   the certificate of the authority, which clients trust
//	ca.key   its key, readable by its owner alone
//	members  enrolment tokens (hashed) and issued certificates, with those that were revoked
//
// A worker exchanges an enrolment token, which is valid once, for a certificate of a key that it made itself. A
// certificate is valid while the list of members has it: what is revoked there is refused with the next request.
package authority
