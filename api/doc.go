// Package api declares the wire types of the HTTP API, each once: bodies of requests, answers, events of streams, and problems. Package server
// answers with them, package client reads them, and the description at /api/v1/openapi.json is made of them: the comments of types and fields are its texts.
package api
