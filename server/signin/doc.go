// Package signin lets people sign in with a browser: sessions, the ways to begin one (a password, a token, a provider
// of OpenID Connect), and the header fields of a trusted proxy. Its [Part] has the routes.
package signin
