// Package server is the HTTP API.
//
// One table ([Routes]) has every route with its role and a sentence; the index page, docs/api.md and the
// tests come from it. Handlers return an error, never a status: statusOf is the one table from kinds of error to
// status, and every answer that is not a success is application/problem+json (RFC 9457).
//
//	request -> headers -> panic -> host -> origin -> size -> route -> handler -> engine
//
// Without tokens (Options.Tokens) there is no authentication: package listen then opens loopback addresses only. The
// Host header is checked, so that a page on the internet cannot reach the API by a name that resolves to 127.0.0.1. A
// request without a token states in "as" whether it comes from an operator or an owner.
package server
