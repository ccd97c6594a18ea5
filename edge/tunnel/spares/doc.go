// Package tunnel turns connections round: an agent behind a firewall dials the server, and the server sends requests to the agent through what the
// agent has dialled. The agent needs no port that anybody can reach.
//
//	agent                                             server
//	  | -- GET /api/v1/compute/tunnel?agent=NAME ----------> |   Connection: Upgrade, Upgrade: stagepost-tunnel, a token
//	  | <- 101 ------------------------------------------ |   the connection is a spare now, parked in the Pool
//	  | <- ping (byte 0) -------------------------------- |   every so often
//	  | -- pong (byte 0) -------------------------------> |
//	  | <- begin (byte 1) ------------------------------- |   somebody dials NAME.tunnel
//	  | -- ready (byte 1) ------------------------------> |   and the agent opens the next spare
//	  | <- requests, in HTTP or whatever the two speak -- |
//	  | -- answers -------------------------------------> |
//
// The single bytes before the first use are the whole protocol. Ping and pong find spares that are dead without having been closed, and keep
// address translators from forgetting them; a spare that closes is noticed at once, since the pool reads from it all the time. Begin and ready prove in
// one round trip, at the moment of use, that the agent is really there, so a request is never lost to a dead spare: the pool throws it away and tries the
// next. After ready nothing of this package is in the way.
//
// The agent's side is [Listen], whose Listener goes into http.Server.Serve; the server's side is a [Pool], which is mounted at the route and whose
// DialContext goes into http.Transport.
package spares
