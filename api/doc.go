// Package api declares the wire types of the HTTP API, each once: bodies of requests, answers, events of streams, and
// problems. Package server answers with them, package client reads them, and the description at /api/v1/openapi.json is
// made from them: the comments of types and fields are its texts.
package api

import "embed"

// Source is the source of this package. Its comments are the texts of the description.
//
//go:embed *.go
var Source embed.FS
