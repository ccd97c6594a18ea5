// Package session is one session with ZooKeeper servers. It adds to the client library what a queue with locks needs:
//
//   - A [Session] is one session of the server and never becomes another one. The library opens a new session when the
//     server has ended the old one, and sends requests that waited under the new one: a write of a worker whose lock is
//     gone. Here the connection is refused instead: [Session.Lost] is closed, and every later request returns kind
//     [Lost]. The caller opens another Session.
//   - A change is one [Session.Multi]: all of its operations or none.
//   - Errors have a [Kind], by which a caller decides: refused by the server, not sent, or result unknown.
//   - [Session.Apply] repeats a change a bounded number of times. After an unknown result it reads what was written:
//     the caller recognizes its own operation id.
package session
