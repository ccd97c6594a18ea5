// Package fetch downloads from URLs of untrusted users: payload URLs, manifest rows and images in e-mails.
//
// Every URL and every server is untrusted. The package therefore guarantees, for every request and again for every
// redirect:
//
//   - only http and https, at most MaxRedirects hops, no proxy from the environment, no cookies, no Referer;
//     credentials
//     of the URL are sent only to the origin that the caller named;
//   - the address is checked after the lookup, at the moment of the dial, so that a name which resolves differently the
//     second time (DNS rebinding) has no effect;
//   - private, loopback, link-local, shared, multicast, reserved and embedded-IPv4 addresses and the machine's own are
//     refused unless Policy.Allow names them;
//   - bytes are stored as they arrive (no content coding is undone), within a size limit, an idle limit, a minimum
//     rate and a total time, in constant memory.
//
// A download is written to name+".part" with a small record (name+".part.json") of the server's version of the file.
// A later call continues with Range and If-Range, and restarts if the server's version has changed. The final name
// appears only if size and digest match and the bytes are synced.
//
// Sources: RFC 9110 sections 13.1.5 (If-Range), 14 (Range) and 15.4 (redirects); the IANA special-purpose address
// registries.
package fetch
